/* guard_pages.c - see guard_pages.h. */
#include "superslab/guard_pages.h"

#if HAK_HARDENED

#include "os/locked.h"
#include "superslab/lists.h"
#include "superslab/mappings.h"
#include "superslab/unit_os.h"

/* Where each guard is a mapping of its own (os_guards_cut), the kernel's limit of 65,530 mappings is what counts. A SuperSlab has up to 32
 * guards, and so 64 mappings: in the first GiB of units, at most 32,768. A Huge block has three mappings and takes two units or
 * more: below 32 GiB, at most 24,576. */
#define CUT_SPANS_BELOW (1 * GIB)

static bool may_guard_spans(void) {
  return !os_guards_cut() || unit_mapped_bytes() <= CUT_SPANS_BELOW;
}

static bool may_guard_units(void) { return !os_guards_cut() || unit_may_cut_mappings(); }

static void guard(char *from, size_t bytes) {
  if (bytes > 0) os_guard(from, bytes); /* refused: it works without */
}

/* --- SuperSlabs ------------------------------------------------------------------------------------- */

void superslab_fence(struct superslab *superslab) {
  if (may_guard_spans()) guard(superslab->base, SLICE_BYTES);
}

bool superslab_unfence(struct superslab *superslab) {
  if (!superslab->fenced && superslab->guards == 0) return true;
  return os_unguard(superslab->base, UNIT_BYTES);
}

/* --- spans ------------------------------------------------------------------------------------------ */

static size_t bytes_of(const struct slab *span) { return (size_t)span->slices << SLICE_SHIFT; }

static bool is_light(void) { return option_guard() == GUARD_LIGHT; }

/* What cannot be touched of so many bytes at a span's end that are no part of it. */
static size_t closed_of(size_t guarded) {
  return is_light() && guarded > 0 ? os_page_size() : guarded;
}

uint32_t span_guards(const struct slab *span) {
  if (span->guarded == 0) return span->stale;
  unsigned first = (unsigned)((bytes_of(span) - closed_of(span->guarded)) >> SLICE_SHIFT);
  return span->stale | slices_mask(span->index + first, span->slices - first);
}

/* Opens all slices of `stale`, which lie in the span, up to `usable` bytes of it. */
static bool open_slices(const struct slab *span, uint32_t stale, size_t usable) {
  if (stale == 0) return true;
  unsigned first = (unsigned)__builtin_ctz(stale), behind = 32 - (unsigned)__builtin_clz(stale);
  char *base = superslab_of(span)->base, *from = base + ((size_t)first << SLICE_SHIFT);
  char *to = base + ((size_t)behind << SLICE_SHIFT), *end = slab_base(span) + usable;
  if (to > end) to = end;
  return to <= from || os_unguard(from, (size_t)(to - from));
}

/* `same`: a guard that is in the last slice is the very one that is wanted. */
static bool guard_end(struct slab *span, size_t guarded, bool same) {
  uint32_t last = UINT32_C(1) << (span->index + span->slices - 1);
  uint32_t had = same && guarded > 0 ? span->stale & last : 0;
  if (!open_slices(span, span->stale & ~had, bytes_of(span) - closed_of(guarded))) return false;
  span->stale = 0;
  span->guarded = (uint32_t)guarded;
  if (had == 0) span_guard_again(span);
  return true;
}

bool span_guard(struct slab *span, size_t usable) {
  return guard_end(span, bytes_of(span) - usable, is_light());
}

bool span_guard_slab(struct slab *span) {
  return guard_end(span, os_page_size(), is_light() || span->same_guard);
}

/* Where the guard of a span that had so many slices begins. */
static size_t guard_from(const struct slab *span, unsigned had) {
  if (!is_light()) return span_usable(span);
  return had > span->slices ? bytes_of(span) : ((size_t)had << SLICE_SHIFT) - os_page_size();
}

bool span_fit(struct slab *span, unsigned had, size_t usable) {
  size_t end = bytes_of(span), old = guard_from(span, had), now = end - closed_of(end - usable);
  char *base = slab_base(span);
  if (now > old && !os_unguard(base + old, now - old)) {
    span->stale |= slices_mask(span->index, span->slices); /* wherever there are some */
    return false;
  }
  span->guarded = (uint32_t)(end - usable);
  size_t to = had == span->slices ? old : end;
  if (now < to && may_guard_spans()) guard(base + now, to - now);
  return true;
}

void span_keep_usable(struct slab *span, size_t usable) {
  size_t bytes = bytes_of(span);
  if (superslab_of(span)->fenced || span->guarded > 0)
    span->guarded = bytes > usable ? (uint32_t)(bytes - usable) : 0;
}

void span_guard_again(struct slab *span) {
  size_t closed = closed_of(span->guarded);
  if (may_guard_spans()) guard(slab_base(span) + bytes_of(span) - closed, closed);
}

/* A span that is closed is a mapping of its own, as a guard may be. */
void span_close(struct slab *span) {
  if (!guard_pages_hold_freed() || unit_mapped_bytes() > CUT_SPANS_BELOW) return;
  /* Said first: a child that is forked in between opens what is open. */
  span->stale = slices_mask(span->index, span->slices);
  (void)os_close(slab_base(span), span_usable(span)); /* refused: it works without */
}

bool span_open(struct slab *span) {
  if (span->stale != 0 && !os_open(slab_base(span), span_usable(span))) return false;
  span->stale = 0;
  return true;
}

/* --- Huge blocks ------------------------------------------------------------------------------------ */

static size_t tail_bytes(size_t units, size_t guard_at) {
  size_t left = (units << UNIT_SHIFT) - guard_at;
  return left < UNITS_GUARD ? left : UNITS_GUARD;
}

void units_guard_tail(char *base, size_t units, size_t guard_at) {
  if (may_guard_units()) guard(base + guard_at, tail_bytes(units, guard_at));
}

/* Not where parts of mappings are locked: the kernel would lock it all. */
static bool map_afresh(char *unit) {
  if (os_locks_parts_now() || !os_map_afresh(unit, UNIT_BYTES)) return false;
  mappings_set(unit, 1, MAPPING_PLAIN);
  return true;
}

bool units_open_tail(char *base, size_t units, size_t guard_at) {
  if (guard_at % UNIT_BYTES == 0 && map_afresh(base + guard_at)) return true;
  return os_unguard(base + guard_at, tail_bytes(units, guard_at));
}

void units_fence(char *base, size_t units, size_t guard_at) {
  if (may_guard_units()) guard(base - UNITS_GUARD, UNITS_GUARD);
  units_guard_tail(base, units, guard_at);
}

bool units_unfence(char *base, size_t units, size_t guard_at) {
  bool front = os_unguard(base - UNITS_GUARD, UNITS_GUARD);
  return units_open_tail(base, units, guard_at) && front;
}

void units_discard(char *base, size_t units) {
  mappings_set(base, units, MAPPING_NONE);
  if (os_unmap(base, units << UNIT_SHIFT)) unit_account(-(ptrdiff_t)units);
  else mappings_set(base, units, MAPPING_PLAIN);
}

#endif

typedef int guard_pages_translation_unit_is_not_empty;
