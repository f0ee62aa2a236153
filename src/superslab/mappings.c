/* mappings.c - see mappings.h. */
#include "superslab/mappings.h"
#include "superslab/unit_os.h"

#include <string.h>

/* In a leaf's bytes, beside enum mapping. */
enum { HOW = 7, KEPT = 8 };

/* Under unit_lock; the atomic ones are read without it. */
static _Atomic size_t mappings HAK_START_DATA, kept HAK_START_DATA;
static uintptr_t kept_low HAK_START_DATA, kept_high HAK_START_DATA; /* all kept units lie between */
/* No stretch of kept units has so many: a search for one that is not there is not repeated. 0: not known. */
static size_t none_of HAK_START_DATA;

static size_t get(const _Atomic size_t *sum) {
  return atomic_load_explicit(sum, memory_order_relaxed);
}

/* relaxed: written under unit_lock; who reads it without takes it for a hint */
static void add(_Atomic size_t *sum, size_t more) {
  atomic_store_explicit(sum, get(sum) + more, memory_order_relaxed);
}

/* --- of each unit ------------------------------------------------------------------------------------ */

static unsigned index_of(uintptr_t unit) { return (unit >> UNIT_SHIFT) % LEAF_UNITS; }

static uint8_t *byte_of(uintptr_t unit) {
  struct map_leaf *leaf = map_leaf_of(unit);
  return leaf != NULL ? &leaf->mappings[index_of(unit)] : NULL;
}

static uint8_t how(uintptr_t unit) {
  const uint8_t *byte = byte_of(unit);
  return byte != NULL ? *byte & HOW : MAPPING_NONE;
}

/* Units from here on, `units` at most, that are in the same leaf. */
static size_t part(uintptr_t unit, size_t units) {
  size_t left = LEAF_UNITS - index_of(unit);
  return units < left ? units : left;
}

static uintptr_t behind(uintptr_t unit, size_t units) { return unit + (units << UNIT_SHIFT); }

/* A mapping begins at a unit that is mapped otherwise than the one in front. */
static bool begins(uint8_t before, uint8_t here) { return here != MAPPING_NONE && here != before; }

/* Mappings that begin in the units, or right behind them. */
static size_t count_in(uintptr_t unit, size_t units) {
  uint8_t before = how(unit - UNIT_BYTES);
  size_t found = 0;
  for (size_t n; units > 0; unit = behind(unit, n), units -= n) {
    n = part(unit, units);
    const uint8_t *bytes = byte_of(unit);
    for (size_t i = 0; i < n; i++) {
      uint8_t here = bytes != NULL ? bytes[i] & HOW : MAPPING_NONE;
      found += begins(before, here);
      before = here;
    }
  }
  return found + begins(before, how(unit));
}

static size_t count_if(uintptr_t unit, size_t units, enum mapping mapping) {
  uint8_t here = (uint8_t)mapping;
  return (size_t)begins(how(unit - UNIT_BYTES), here) + begins(here, how(behind(unit, units)));
}

static void put(uintptr_t unit, size_t units, uint8_t value) {
  for (size_t n; units > 0; unit = behind(unit, n), units -= n) {
    n = part(unit, units);
    uint8_t *bytes = byte_of(unit);
    if (bytes != NULL) memset(bytes, value, n);
  }
}

static bool all_known(uintptr_t unit, size_t units) {
  for (size_t n; units > 0; unit = behind(unit, n), units -= n) {
    n = part(unit, units);
    if (map_leaf_of(unit) == NULL) return false;
  }
  return true;
}

static bool change(uintptr_t unit, size_t units, enum mapping mapping, size_t most) {
  if (!all_known(unit, units)) return true;
  size_t before = count_in(unit, units), after = count_if(unit, units, mapping);
  if (after > before && get(&mappings) + (after - before) > most) return false;
  put(unit, units, (uint8_t)mapping);
  add(&mappings, after - before); /* may wrap */
  return true;
}

/* --- how they are mapped ------------------------------------------------------------------------------ */

void mappings_set(const char *base, size_t units, enum mapping mapping) {
  lock_acquire(&unit_lock);
  change((uintptr_t)base, units, mapping, SIZE_MAX);
  lock_release(&unit_lock);
}

bool mappings_change(const char *base, size_t units, enum mapping mapping) {
  lock_acquire(&unit_lock);
  bool done = change((uintptr_t)base, units, mapping, MAPPINGS_MOST);
  lock_release(&unit_lock);
  return done;
}

static bool any_huge(uintptr_t unit, size_t units) {
  for (size_t i = 0; i < units; i++)
    if (how(behind(unit, i)) == MAPPING_HUGE) return true;
  return false;
}

bool mappings_any_huge(const char *base, size_t units) {
  lock_acquire(&unit_lock);
  bool any = any_huge((uintptr_t)base, units);
  lock_release(&unit_lock);
  return any;
}

static bool have_room(size_t most) { return get(&mappings) + 3 <= most; }

bool mappings_have_room(void) { return have_room(MAPPINGS_MOST); }

size_t mappings_count(void) { return get(&mappings); }

/* --- kept units --------------------------------------------------------------------------------------- */

static bool is_kept(uintptr_t unit) {
  const uint8_t *byte = byte_of(unit);
  return byte != NULL && (*byte & KEPT) != 0;
}

/* Sets or clears the mark of units whose leaves are there. */
static void mark(uintptr_t unit, size_t units, bool as_kept) {
  for (size_t n; units > 0; unit = behind(unit, n), units -= n) {
    n = part(unit, units);
    struct map_leaf *leaf = map_leaf_of(unit);
    uint8_t *bytes = &leaf->mappings[index_of(unit)];
    for (size_t i = 0; i < n; i++) bytes[i] = (uint8_t)((bytes[i] & HOW) | (as_kept ? KEPT : 0));
    leaf->kept += (uint32_t)(as_kept ? n : -n);
    add(&kept, as_kept ? n : -n);
  }
}

/* Is there a stretch now of as many units as none had? */
static void forget_none(uintptr_t unit, size_t units) {
  uintptr_t low = unit, high = behind(unit, units);
  if (none_of == 0) return;
  while ((high - low) >> UNIT_SHIFT < none_of && is_kept(low - UNIT_BYTES)) low -= UNIT_BYTES;
  while ((high - low) >> UNIT_SHIFT < none_of && is_kept(high)) high += UNIT_BYTES;
  if ((high - low) >> UNIT_SHIFT >= none_of) none_of = 0;
}

bool mappings_leave(char **base, size_t *units) {
  uintptr_t unit = (uintptr_t)*base, end = behind(unit, *units), low = unit, high = end;
  lock_acquire(&unit_lock);
  while (get(&kept) > 0 && is_kept(low - UNIT_BYTES)) low -= UNIT_BYTES;
  while (get(&kept) > 0 && is_kept(high)) high += UNIT_BYTES;
  size_t below = (unit - low) >> UNIT_SHIFT, above = (high - end) >> UNIT_SHIFT;
  mark(low, below, false);
  mark(end, above, false);
  bool done = change(low, below + *units + above, MAPPING_NONE, MAPPINGS_MOST);
  if (!done) {
    mark(low, below, true);
    mark(end, above, true);
  }
  lock_release(&unit_lock);
  if (!done) return false;
  *base -= unit - low;
  *units += below + above;
  return true;
}

bool mappings_keep(char *base, size_t units) {
  uintptr_t unit = (uintptr_t)base;
  lock_acquire(&unit_lock);
  bool known = all_known(unit, units);
  if (known) {
    if (get(&kept) == 0) kept_low = UINTPTR_MAX, kept_high = 0;
    if (unit < kept_low) kept_low = unit;
    if (behind(unit, units) > kept_high) kept_high = behind(unit, units);
    mark(unit, units, true);
    forget_none(unit, units);
  }
  lock_release(&unit_lock);
  return known;
}

/* Walks over kept units; leaves without any are passed over. */
struct stretch {
  uintptr_t first; /* of the stretch that is gone through */
  size_t length;   /* so far */
};

/* Goes on from `unit` until the stretch has `most` units, or has ended. Returns where it goes on from. */
static uintptr_t go_through(struct stretch *stretch, uintptr_t unit, size_t most) {
  stretch->length = 0;
  while (unit < kept_high) {
    struct map_leaf *leaf = map_leaf_of(unit);
    bool any = leaf != NULL && leaf->kept > 0;
    for (size_t i = index_of(unit); any && i < LEAF_UNITS; i++, unit = behind(unit, 1)) {
      bool is = (leaf->mappings[i] & KEPT) != 0;
      if (!is && stretch->length > 0) return unit;
      if (is && stretch->length++ == 0) stretch->first = unit;
      if (stretch->length == most) return behind(unit, 1);
    }
    if (!any && stretch->length > 0) return unit;
    if (!any) unit = behind(unit, LEAF_UNITS - index_of(unit));
  }
  return unit;
}

char *mappings_take(size_t units, bool *huge) {
  struct stretch found = {0};
  if (HAK_LIKELY(get(&kept) < units)) return NULL;
  lock_acquire(&unit_lock);
  size_t longest = 0;
  if (none_of == 0 || units < none_of) {
    for (uintptr_t unit = kept_low; unit < kept_high && found.length < units;) {
      unit = go_through(&found, unit, units);
      if (found.length > longest) longest = found.length;
    }
    if (longest < units) none_of = longest + 1;
  }
  bool taken = longest == units;
  if (taken) {
    *huge = any_huge(found.first, units);
    mark(found.first, units, false);
  }
  lock_release(&unit_lock);
  return taken ? (char *)found.first : NULL; // NOLINT(performance-no-int-to-ptr): a place
}

/* Would the kernel have more mappings without them? */
static bool makes_more(uintptr_t unit, size_t units) {
  return count_if(unit, units, MAPPING_NONE) > count_in(unit, units);
}

bool mappings_take_to_unmap(char **cursor, char **base, size_t *units, size_t most) {
  struct stretch found = {0};
  bool taken = false;
  if (HAK_LIKELY(get(&kept) == 0)) return false;
  lock_acquire(&unit_lock);
  uintptr_t unit = *cursor != NULL ? (uintptr_t)*cursor : kept_low;
  while (unit < kept_high && !taken) {
    unit = go_through(&found, unit, SIZE_MAX);
    if (found.length == 0) break;
    if (!have_room(most) && makes_more(found.first, found.length)) continue;
    mark(found.first, found.length, false);
    taken = change(found.first, found.length, MAPPING_NONE, SIZE_MAX);
  }
  lock_release(&unit_lock);
  *cursor = (char *)unit;      // NOLINT(performance-no-int-to-ptr): a place
  *base = (char *)found.first; // NOLINT(performance-no-int-to-ptr): a place
  *units = found.length;
  return taken;
}

size_t mappings_kept(void) { return get(&kept); }
