/* superslab.c - SuperSlabs cut into spans.
 *
 * SuperSlabs stand in lists by their longest run of free slices, those whose huge page was broken up in lists of
 * their own. A span is taken from the tightest list that has room, so that full SuperSlabs fill up and nearly
 * empty ones drain and go back whole.
 */
#include "superslab/superslab.h"

#include <string.h>

#include "observe/counters.h"
#include "observe/report.h"
#include "policy/options.h"
#include "superslab/descriptor.h"
#include "superslab/sums.h"
#include "superslab/whole.h"

#define ALL_SLICES UINT32_MAX

struct lock superslab_lock;
struct superslab_sums superslab_sums;

/* By longest free run, then by the same those that are split. One that was split stays where it is until one of its
 * slices is taken or freed. */
enum { RUNS = SLICES_PER_UNIT + 1, LISTS = 2 * RUNS };
static struct superslab *lists[LISTS];
static uint64_t nonempty_lists[2];       /* bit i: lists[i], and lists[RUNS + i], has members */
static struct superslab *unused;         /* descriptors free for reuse */
static struct superslab *next_look;      /* where superslab_take_dirty goes on */
static _Atomic size_t dirty_free_slices; /* written under the lock */
/* What this thread has emptied and not given up yet (superslab_settle): in no list and not in the map. Not for others, who would
 * do this thread's work in a malloc of theirs. */
static _Thread_local struct superslab *emptied __attribute__((tls_model("initial-exec")));

/* --- descriptors --------------------------------------------------------------------------------- */

struct superslab *descriptor_new(void) {
  lock_acquire(&superslab_lock);
  struct superslab *superslab = unused;
  bool used_before = superslab != NULL;
  if (used_before) unused = superslab->next;
  lock_release(&superslab_lock);
  if (superslab == NULL) superslab = meta_allocate(sizeof *superslab, 64);
  if (superslab == NULL) return NULL;
  _Atomic(uint64_t) *guard_bits = superslab->guard_bits;
  if (used_before) memset(superslab, 0, sizeof *superslab);
#if HAK_HARDENED
  if (guard_bits == NULL) guard_bits = meta_allocate(UNIT_BYTES / 16 / 8, 64);
  if (guard_bits == NULL) {
    lock_acquire(&superslab_lock);
    superslab->next = unused;
    unused = superslab;
    lock_release(&superslab_lock);
    return NULL;
  }
#endif
  superslab->guard_bits = guard_bits;
  return superslab;
}

void descriptor_free(struct superslab *superslab) {
  superslab->next = unused;
  unused = superslab;
}

/* --- free runs of slices --------------------------------------------------------------------------- */

static uint32_t slices_mask(unsigned first, unsigned count) {
  return (uint32_t)((((uint64_t)1 << count) - 1) << first);
}

static unsigned longest_run(uint32_t mask) {
  unsigned length = 0;
  for (; mask != 0; length++) mask &= mask << 1;
  return length;
}

/* Positions at which a run of `count` set bits starts. */
static uint32_t run_starts(uint32_t mask, unsigned count) {
  /* after the loop bit i says that bits i..i+covered-1 of the mask are set */
  for (unsigned covered = 1; covered < count;) {
    unsigned step = covered < count - covered ? covered : count - covered;
    mask &= mask >> step;
    covered += step;
  }
  return mask;
}

static uint32_t alignment_mask(unsigned alignment) {
  uint32_t mask = 0;
  for (unsigned i = 0; i < SLICES_PER_UNIT; i += alignment) mask |= UINT32_C(1) << i;
  return mask;
}

static unsigned list_for(const struct superslab *superslab) {
  bool split = atomic_load_explicit(&superslab->split, memory_order_relaxed);
  return longest_run(superslab->free_mask) + (split ? RUNS : 0);
}

static void list_insert(struct superslab *superslab) {
  unsigned list = list_for(superslab);
  superslab->list = (uint8_t)list;
  superslab->era = superslab_sums.era;
  superslab->prev = NULL;
  superslab->next = lists[list];
  if (lists[list] != NULL) lists[list]->prev = superslab;
  lists[list] = superslab;
  nonempty_lists[list / RUNS] |= UINT64_C(1) << list % RUNS;
}

static void list_remove(struct superslab *superslab) {
  unsigned list = superslab->list;
  if (next_look == superslab) next_look = superslab->next;
  if (superslab->prev != NULL) superslab->prev->next = superslab->next;
  else lists[list] = superslab->next;
  if (superslab->next != NULL) superslab->next->prev = superslab->prev;
  if (lists[list] == NULL) nonempty_lists[list / RUNS] &= ~(UINT64_C(1) << list % RUNS);
}

/* Lists again after free_mask has changed. */
static void list_update(struct superslab *superslab) {
  if (list_for(superslab) == superslab->list) return;
  list_remove(superslab);
  list_insert(superslab);
}

static unsigned dirty_slices_of(const struct superslab *superslab) {
  uint32_t dirty = superslab->free_mask & superslab->dirty_mask & ~superslab->given_mask;
  return (unsigned)__builtin_popcount(dirty);
}

/* After a change of the masks of a SuperSlab that had `before` dirty slices. */
static void count_dirty(unsigned before, unsigned after) {
  size_t all = atomic_load_explicit(&dirty_free_slices, memory_order_relaxed);
  atomic_store_explicit(&dirty_free_slices, all + after - before, memory_order_relaxed);
}

enum room { ROOM_ANYWHERE, ROOM_AT_FORMER_END };

/* In one list of SuperSlabs that have so many free slices in a row. */
static struct superslab *find_in_list(struct superslab *superslab, unsigned slices,
                                      uint32_t allowed, enum room room, unsigned *first) {
  /* An alignment makes few members unfit, and a former end is not found at any price: some are enough to try. */
  for (int tries = 0; superslab != NULL && tries < 8; superslab = superslab->next, tries++) {
    uint32_t starts = run_starts(superslab->free_mask, slices) & allowed;
    if (room == ROOM_AT_FORMER_END) starts &= superslab->ends >> (slices - 1);
    if (starts == 0) continue;
    *first = (unsigned)__builtin_ctz(starts);
    return superslab;
  }
  return NULL;
}

/* `split`: those whose huge page was broken up will do, too. */
static struct superslab *find_room(unsigned slices, unsigned alignment, bool split, enum room room,
                                   unsigned *first) {
  uint32_t allowed = alignment_mask(alignment);
  uint64_t candidates = nonempty_lists[0] | (split ? nonempty_lists[1] : 0);
  candidates &= ~(((uint64_t)1 << slices) - 1);
  for (; candidates != 0; candidates &= candidates - 1) {
    unsigned run = (unsigned)__builtin_ctzll(candidates);
    struct superslab *found = find_in_list(lists[run], slices, allowed, room, first);
    if (found == NULL && split)
      found = find_in_list(lists[RUNS + run], slices, allowed, room, first);
    if (found != NULL) return found;
  }
  return NULL;
}

/* A new SuperSlab beside free slices in old ones: only where half of all slices stay in use. */
static bool may_spread(void) {
  return superslab_sums.live * SLICES_PER_UNIT <= 2 * superslab_sums.slices_in_use;
}

static void count_live(void) {
  if (++superslab_sums.live > superslab_sums.peak) superslab_sums.peak = superslab_sums.live;
}

/* --- spans ------------------------------------------------------------------------------------------ */

static void advise_huge_pages(struct superslab *superslab, struct unit_run run, bool wanted,
                              bool as_sample) {
  superslab->huge_pages = superslab->explicit_pages = run.huge_pages;
  if (!run.zeroed || run.huge_pages || option_value(SS_HUGEPAGE) != HUGEPAGE_THP ||
      option_value(SS_MEM_LEAN))
    return;
  if (as_sample && wanted) wanted = whole_expected(WHOLE_SPANS, superslab) == WHOLE_YES;
  else if (as_sample) whole_offer(WHOLE_SPANS, superslab);
  if (wanted) superslab->huge_pages = os_advise_huge(run.base, UNIT_BYTES);
}

/* A new SuperSlab, not yet listed. `as_sample`: for Large blocks, whose use decides about huge pages. */
static struct superslab *superslab_new(bool huge_pages, bool as_sample, bool *from_os) {
  struct superslab *superslab = descriptor_new();
  if (superslab == NULL) return NULL;
  struct unit_run run = unit_acquire(1, UNIT_BYTES);
  *from_os = run.from_os;
  if (run.base != NULL) {
    superslab->base = run.base;
    superslab->free_mask = ALL_SLICES;
    superslab->dirty_mask = run.zeroed ? 0 : ALL_SLICES;
    if (map_set(run.base, 1, superslab)) {
      lock_acquire(&superslab_lock);
      count_live();
      lock_release(&superslab_lock);
      advise_huge_pages(superslab, run, huge_pages, as_sample);
      return superslab;
    }
    unit_release(run.base, 1, run.huge_pages);
  }
  lock_acquire(&superslab_lock);
  descriptor_free(superslab);
  lock_release(&superslab_lock);
  return NULL;
}

static void clear_guard_bits(struct superslab *superslab, unsigned first, unsigned slices) {
  if (superslab->guard_bits == NULL) return;
  size_t words = SLICE_BYTES / 16 / 64;
  memset((void *)(superslab->guard_bits + first * words), 0, slices * words * sizeof(uint64_t));
}

static struct slab *span_take(struct superslab *superslab, unsigned first, unsigned slices,
                              enum slab_kind kind, bool *zeroed) {
  uint32_t mask = slices_mask(first, slices);
  HAK_CHECK((superslab->free_mask & mask) == mask);
  unsigned dirty = dirty_slices_of(superslab);
  superslab->free_mask &= ~mask;
  superslab->given_mask &= ~mask;
  superslab_sums.slices_in_use += slices;
  count_dirty(dirty, dirty_slices_of(superslab));
  *zeroed = (superslab->dirty_mask & mask) == 0;
  struct slab *span = &superslab->slabs[first];
  for (unsigned i = 0; i < slices; i++) {
    span[i].index = (uint8_t)(first + i);
    span[i].offset = (uint8_t)i;
    span[i].holes = 0;
    atomic_store_explicit(&span[i].kind, (uint8_t)kind, memory_order_relaxed);
  }
  span->slices = (uint8_t)slices;
  if (kind == KIND_LARGE) superslab->ends |= UINT32_C(1) << (first + slices - 1);
  clear_guard_bits(superslab, first, slices);
  return span;
}

struct slab *span_acquire(unsigned slices, unsigned alignment, enum slab_kind kind,
                          enum span_pages pages, unsigned counted_class, bool *zeroed) {
  unsigned first = 0;
  bool from_os = false;
  lock_acquire(&superslab_lock);
  bool whole = pages == PAGES_FRESH && may_spread();
  struct superslab *superslab = NULL;
  if (kind == KIND_LARGE && option_value(SS_MEM_LEAN))
    superslab = find_room(slices, alignment, true, ROOM_AT_FORMER_END, &first);
  if (superslab == NULL) superslab = find_room(slices, alignment, !whole, ROOM_ANYWHERE, &first);
  if (superslab == NULL) {
    lock_release(&superslab_lock);
    bool as_sample = kind == KIND_LARGE && alignment == 1;
    superslab = superslab_new(pages != PAGES_SMALL, as_sample, &from_os);
    lock_acquire(&superslab_lock);
    if (superslab != NULL) {
      list_insert(superslab);
      /* All of it, when it comes out of the warm pool. */
      count_dirty(0, dirty_slices_of(superslab));
    } else if (whole) {
      superslab = find_room(slices, alignment, true, ROOM_ANYWHERE, &first);
    }
  }
  struct slab *span = NULL;
  if (superslab != NULL) {
    span = span_take(superslab, first, slices, kind, zeroed);
    list_update(superslab);
  }
  if (span != NULL || from_os)
    counters_supply(counted_class, from_os ? SUPPLY_MISS : SUPPLY_HIT, 1);
  lock_release(&superslab_lock);
  return span;
}

/* After slices became free. True when the SuperSlab is empty now and was taken out of every list and the
 * address map: the caller releases the lock and then the unit. */
static bool list_or_take_out(struct superslab *superslab) {
  if (superslab->free_mask != ALL_SLICES || superslab->pinned) {
    list_update(superslab);
    return false;
  }
  count_dirty(dirty_slices_of(superslab), 0);
  list_remove(superslab);
  whole_forget(superslab);
  map_clear(superslab->base, 1);
  superslab_sums.live--;
  return true;
}

/* Makes [first, first + slices) free; result as above. */
static bool slices_free(struct superslab *superslab, unsigned first, unsigned slices,
                        uint32_t dirty) {
  HAK_CHECK((superslab->free_mask & slices_mask(first, slices)) == 0);
  for (unsigned i = first; i < first + slices; i++)
    atomic_store_explicit(&superslab->slabs[i].kind, KIND_FREE, memory_order_relaxed);
  if (HAK_UNLIKELY(superslab->era != superslab_sums.era)) return false;
  unsigned before = dirty_slices_of(superslab);
  superslab_sums.slices_in_use -= slices;
  superslab->free_mask |= slices_mask(first, slices);
  superslab->dirty_mask |= dirty;
  superslab->age = 0;
  count_dirty(before, dirty_slices_of(superslab));
  return list_or_take_out(superslab);
}

/* HAKMEM_SS_MEM_LEAN=1: of emptied SuperSlabs, one is kept, and those of which so much is in memory: there are not more
 * of them than the program filled, and to fill them again costs most. Of others ever more pages would be touched, one
 * here and one there: only as long as it is so little they stay where they are, with what is known of the places where
 * blocks ended (docs/decisions/0012). */
#define LEAN_WARM_BYTES (2 * MIB)
#define LEAN_FULL_BYTES (UNIT_BYTES / 4 * 3)
#define LEAN_SPARSE_BYTES (384 * KIB)

static bool is_worth_keeping(size_t resident) {
  return unit_warm_bytes() < LEAN_WARM_BYTES || resident >= LEAN_FULL_BYTES;
}

/* Undoes list_or_take_out. False: the map has no room for it any more. */
static bool put_in(struct superslab *superslab) {
  if (!map_set(superslab->base, 1, superslab)) return false;
  lock_acquire(&superslab_lock);
  count_live();
  list_insert(superslab);
  count_dirty(0, dirty_slices_of(superslab));
  lock_release(&superslab_lock);
  return true;
}

static void release_emptied(struct superslab *superslab) {
  bool keep = true;
  if (option_value(SS_MEM_LEAN)) {
    size_t resident = os_resident_part(superslab->base, UNIT_BYTES);
    /* What was given back a moment ago is not for keeping. */
    bool dirty = (superslab->dirty_mask & ~superslab->given_mask) != 0;
    if (dirty && resident <= LEAN_SPARSE_BYTES && put_in(superslab)) return;
    keep = is_worth_keeping(resident);
  }
  /* The unit first: while it is in the pool no descriptor names it, and the descriptor is reused
   * only after base was read. */
  if (keep) unit_release(superslab->base, 1, superslab->explicit_pages);
  else unit_give_up(superslab->base, 1, superslab->explicit_pages);
  lock_acquire(&superslab_lock);
  descriptor_free(superslab);
  lock_release(&superslab_lock);
}

/* Under the lock; result as above. */
static bool span_free(struct slab *span) {
  unsigned slices = span->slices;
  /* Slices of a slab that were never carved stay known as zero. */
  unsigned dirty = slices;
  if (atomic_load_explicit(&span->kind, memory_order_relaxed) == KIND_SLAB) {
    dirty = (unsigned)((span->touched + SLICE_BYTES - 1) >> SLICE_SHIFT);
    if (dirty > slices) dirty = slices;
  }
  return slices_free(superslab_of(span), span->index, slices, slices_mask(span->index, dirty));
}

void span_release(struct slab *span) {
  struct superslab *superslab = superslab_of(span);
  lock_acquire(&superslab_lock);
  bool is_empty = span_free(span);
  lock_release(&superslab_lock);
  if (is_empty) release_emptied(superslab);
}

void span_release_soon(struct slab *span) {
  struct superslab *superslab = superslab_of(span);
  lock_acquire(&superslab_lock);
  if (span_free(span)) {
    superslab->next = emptied;
    emptied = superslab;
  }
  lock_release(&superslab_lock);
}

void superslab_settle(void) {
  for (struct superslab *superslab; HAK_UNLIKELY((superslab = emptied) != NULL);) {
    emptied = superslab->next;
    release_emptied(superslab);
  }
  unit_settle();
}

bool span_resize(struct slab *span, unsigned slices) {
  struct superslab *superslab = superslab_of(span);
  unsigned old = span->slices, first = span->index;
  bool done = true, zeroed;
  if (slices == old) return true;
  lock_acquire(&superslab_lock);
  if (slices < old) {
    span->slices = (uint8_t)slices;
    slices_free(superslab, first + slices, old - slices, slices_mask(first + slices, old - slices));
  } else {
    uint32_t more = slices_mask(first + old, slices - old);
    done = first + slices <= SLICES_PER_UNIT && (superslab->free_mask & more) == more &&
           superslab->era == superslab_sums.era;
    if (done) {
      span_take(superslab, first + old, slices - old, KIND_LARGE, &zeroed);
      for (unsigned i = old; i < slices; i++) span[i].offset = (uint8_t)i;
      span->slices = (uint8_t)slices;
      list_update(superslab);
    }
  }
  lock_release(&superslab_lock);
  return done;
}

/* --- giving free slices back ---------------------------------------------------------------------- */

size_t superslab_dirty_bytes(void) {
  return atomic_load_explicit(&dirty_free_slices, memory_order_relaxed) << SLICE_SHIFT;
}

/* Breaking up a huge page costs its reach in the TLB: only for this much. */
enum { SPLIT_SLICES = SLICES_PER_UNIT / 4 };

bool superslab_may_split(const struct superslab *superslab, unsigned slices, bool all) {
  if (superslab->explicit_pages)
    return false; /* asked for a part, the kernel may do nothing and say that it did */
  if (!superslab_is_whole(superslab)) return true;
  return all || slices >= SPLIT_SLICES;
}

void superslab_split(struct superslab *superslab) {
  HAK_CHECK(!superslab->explicit_pages);
  if (!superslab_is_whole(superslab)) return;
  atomic_store_explicit(&superslab->split, true, memory_order_relaxed);
  /* Else the kernel would put it together again, empty pages and all: a heap of 80 MB became 93 MB so. */
  if (unit_may_cut_mappings()) os_advise_small(superslab->base, UNIT_BYTES);
}

unsigned superslab_take_dirty(struct dirty_cursor *cursor, unsigned looks,
                              struct dirty_slices *sets, unsigned most, size_t *young) {
  enum { LOOKS_AT_ONCE = 64 }; /* in one hold of the lock, for which others may have to wait */
  unsigned taken = 0, looked = 0;
  lock_acquire(&superslab_lock);
  if (!cursor->started) next_look = NULL;
  cursor->started = true;
  while (taken < most) {
    if (++looked % LOOKS_AT_ONCE == 0) {
      lock_release_in_turn(&superslab_lock);
      lock_acquire(&superslab_lock);
    }
    if (next_look == NULL) {
      if (cursor->list == LISTS - 1) break;
      next_look = lists[++cursor->list];
      continue;
    }
    struct superslab *superslab = next_look;
    next_look = superslab->next;
    unsigned dirty = dirty_slices_of(superslab);
    if (dirty == 0 || !superslab_may_split(superslab, dirty, looks == 0)) continue;
    if (superslab->age < looks) {
      superslab->age++;
      *young += (size_t)dirty << SLICE_SHIFT;
      continue;
    }
    uint32_t mask = superslab->free_mask & superslab->dirty_mask & ~superslab->given_mask;
    superslab->free_mask &= ~mask;
    count_dirty(dirty, 0);
    list_update(superslab);
    sets[taken++] = (struct dirty_slices){superslab, mask};
  }
  lock_release(&superslab_lock);
  return taken;
}

void superslab_put_clean(struct dirty_slices set, bool zeroed) {
  struct superslab *superslab = set.superslab;
  lock_acquire(&superslab_lock);
  unsigned before = dirty_slices_of(superslab);
  superslab->free_mask |= set.mask;
  if (zeroed) superslab->dirty_mask &= ~set.mask;
  else superslab->given_mask |= set.mask;
  superslab->ends &= ~set.mask;
  count_dirty(before, dirty_slices_of(superslab));
  bool is_empty = list_or_take_out(superslab);
  lock_release(&superslab_lock);
  if (is_empty) release_emptied(superslab);
}

__attribute__((no_sanitize("thread"))) unsigned slice_holes(const struct slab *slice) {
  return (unsigned)__builtin_popcount(*(const volatile uint16_t *)&slice->holes);
}

static bool is_refilled(const struct superslab *superslab) {
  if (superslab->free_mask != 0 || !superslab->huge_pages || superslab->pinned ||
      superslab_is_whole(superslab))
    return false;
  for (unsigned i = 0; i < SLICES_PER_UNIT; i++) {
    const struct slab *slab = &superslab->slabs[i];
    uint8_t kind = atomic_load_explicit(&slab->kind, memory_order_relaxed);
    if (kind >= KIND_CACHED || slice_holes(slab) > 0) return false;
  }
  return true;
}

struct superslab *superslab_take_refilled(struct dirty_cursor *cursor) {
  enum { LOOKS_AT_ONCE = 8 }; /* 32 descriptors each */
  struct superslab *found = NULL;
  unsigned looked = 0;
  lock_acquire(&superslab_lock);
  if (!cursor->started) next_look = lists[0];
  cursor->started = true;
  while (found == NULL) {
    if (next_look == NULL) {
      if (cursor->list == RUNS) break;
      cursor->list = RUNS;
      next_look = lists[RUNS];
      continue;
    }
    struct superslab *superslab = next_look;
    next_look = superslab->next;
    if (is_refilled(superslab)) {
      superslab->pinned = true;
      found = superslab;
    }
    if (++looked % LOOKS_AT_ONCE == 0) {
      lock_release_in_turn(&superslab_lock);
      lock_acquire(&superslab_lock);
    }
  }
  lock_release(&superslab_lock);
  return found;
}

void superslab_join(struct superslab *superslab) {
  /* Not split from here on even if the kernel refuses now: it may do it by itself later. */
  if (os_advise_huge(superslab->base, UNIT_BYTES)) {
    os_collapse(superslab->base, UNIT_BYTES);
    atomic_store_explicit(&superslab->split, false, memory_order_relaxed);
  }
  lock_acquire(&superslab_lock);
  superslab->pinned = false;
  bool is_empty = list_or_take_out(superslab);
  lock_release(&superslab_lock);
  if (is_empty) release_emptied(superslab);
}

/* --- fork ---------------------------------------------------------------------------------------------- */

void superslab_each_lock(lock_visit *visit, void *argument) {
  visit(&superslab_lock, argument);
  visit(&unit_lock, argument);
  visit(&meta_lock, argument);
}

/* The lists may be cut in half: new ones, and those SuperSlabs are in none any more. Their blocks can be freed, but nothing
 * more is taken from them, and they are not given up. */
static void forget_lists(void) {
  memset(lists, 0, sizeof lists);
  memset(nonempty_lists, 0, sizeof nonempty_lists);
  unused = next_look = NULL;
  superslab_sums.live = superslab_sums.slices_in_use = 0;
  whole_forget_all();
  atomic_store_explicit(&dirty_free_slices, 0, memory_order_relaxed);
  superslab_sums.era++;
}

void superslab_fork_child(void) {
  if (!lock_is_whole_in_child(&superslab_lock)) forget_lists();
  if (!lock_is_whole_in_child(&unit_lock)) unit_forget();
  if (!lock_is_whole_in_child(&meta_lock)) meta_forget();
}
