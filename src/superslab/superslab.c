/* superslab.c - SuperSlabs cut into spans. */
#include "superslab/map.h"
#include "superslab/unit.h"

#include "observe/counters.h"
#include "observe/report.h"
#include "os/locked.h"
#include "policy/options.h"
#include "superslab/collapse.h"
#include "superslab/dense.h"
#include "superslab/descriptor.h"
#include "superslab/emptied.h"
#include "superslab/guard_pages.h"
#include "superslab/lists.h"
#include "superslab/mappings.h"
#include "superslab/random_place.h"

struct lock superslab_lock HAK_START_DATA;

/* --- spans ------------------------------------------------------------------------------------------ */

static void advise_huge_pages(struct superslab *superslab, struct unit_run run, bool wanted,
                              bool as_sample) {
  superslab_begin_pages(superslab, run.huge_pages);
  /* Of the pool: a Huge block's, say. It need not be in memory, or goes from there in parts: then one touch would bring 2 MiB. What is a huge
   * page stays one. */
  if (!run.zeroed && !run.huge_pages && mappings_any_huge(run.base, 1))
    unit_advise_small(run.base, 1);
  /* What has a guarded page cannot be a huge one. */
  if (superslab->fenced || guard_pages_behind_slabs()) return;
  if (!run.zeroed || run.huge_pages || option_value(SS_HUGEPAGE) != HUGEPAGE_THP ||
      option_value(SS_MEM_LEAN))
    return;
  if (as_sample && wanted) wanted = dense_expected(DENSE_SPANS, superslab) == DENSE_YES;
  else if (as_sample) dense_offer(DENSE_SPANS, superslab);
  bool sparse =
      wanted && !as_sample && atomic_load_explicit(&collapse_finds_sparse, memory_order_relaxed);
  if (!as_sample && (!wanted || sparse)) collapse_note(superslab);
  if (!wanted) return;
  if (!sparse) {
    if (!unit_advise_huge(run.base, 1)) return;
    atomic_store_explicit(&superslab->huge_pages, true, memory_order_relaxed);
  }
  atomic_fetch_add_explicit(&collapse_owed, 1, memory_order_relaxed);
}

/* A new SuperSlab, not yet listed. `as_sample`: for Large blocks, whose use decides about huge pages. */
static struct superslab *superslab_new(bool huge_pages, bool as_sample, bool fenced,
                                       bool *from_os) {
  struct superslab *superslab = descriptor_new();
  if (superslab == NULL) return NULL;
  struct unit_run run = unit_acquire(1, UNIT_BYTES);
  *from_os = run.from_os;
  if (run.base != NULL) {
    superslab->base = run.base;
    superslab->fenced = fenced;
    superslab->node = run.node;
    superslab->free_mask = slices_of(superslab);
    superslab->dirty_mask = run.zeroed ? 0 : ALL_SLICES;
    if (map_set(run.base, 1, superslab)) {
      if (fenced) superslab_fence(superslab);
      lock_acquire(&superslab_lock);
      lists_count_live(superslab);
      lock_release(&superslab_lock);
      advise_huge_pages(superslab, run, huge_pages, as_sample);
      return superslab;
    }
    unit_release(run.base, 1, run.huge_pages, run.node);
  }
  lock_acquire(&superslab_lock);
  descriptor_free(superslab);
  lock_release(&superslab_lock);
  return NULL;
}

static struct slab *span_take(struct superslab *superslab, unsigned first, unsigned slices,
                              enum slab_kind kind, bool *zeroed) {
  uint32_t mask = slices_mask(first, slices);
  HAK_CHECK((superslab->free_mask & mask) == mask);
  unsigned dirty = dirty_slices_of(superslab);
  superslab->free_mask &= ~mask;
  superslab->lazily_freed_mask &= ~mask;
  lists_count_in_use((ptrdiff_t)slices);
  unsigned still_dirty = dirty_slices_of(superslab);
  lists_count_dirty(dirty, still_dirty);
  unit_take((size_t)(slices - (dirty - still_dirty)) << SLICE_SHIFT);
  *zeroed = (superslab->dirty_mask & mask) == 0;
  struct slab *span = &superslab->slabs[first];
  for (unsigned i = 0; i < slices; i++) {
    if (HAK_HARDENED) span->was_used |= span[i].was_used;
    span[i].index = (uint8_t)(first + i);
    span[i].offset = (uint8_t)i;
    span[i].holes = 0;
    atomic_store_explicit(&span[i].kind, (uint8_t)kind, memory_order_relaxed);
  }
  span->slices = (uint8_t)slices;
  if (HAK_HARDENED) {
    span->guarded = 0;
    span->stale = superslab->guards & mask;
    span->same_guard = superslab->ends == 0;
    superslab->guards &= ~mask;
  }
  if (kind == KIND_LARGE) {
    superslab->ends |= UINT32_C(1) << (first + slices - 1);
    *zeroed &= option_guard() == GUARD_OFF || !span->was_used;
  }
  return span;
}

static size_t bytes_of(const struct slab *span) { return (size_t)span->slices << SLICE_SHIFT; }

/* A slab just acquired, with the guard that it is to have. NULL: it was given up, since guards of a former use could not be removed. */
static struct slab *with_guard(struct slab *span) {
  if (!HAK_HARDENED || span == NULL) return span;
  /* Beside Large blocks a slab has one in any case, or an overflow of it would reach the next of them. */
  bool wanted = guard_pages_behind_slabs() || superslab_of(span)->fenced;
  if (wanted ? span_guard_slab(span) : span->stale == 0 || span_guard(span, bytes_of(span)))
    return span;
  span->touched = (uint32_t)bytes_of(span);
  span_release_soon(span);
  return NULL;
}

/* Takes what was found, superslab_lock is held; `from_os`: in a SuperSlab of new memory, which counts even if none was had in the end. */
static struct slab *take_found(struct superslab *superslab, unsigned first, unsigned slices,
                               enum slab_kind kind, unsigned counted_class, bool from_os,
                               bool *zeroed) {
  struct slab *span = NULL;
  if (superslab != NULL) {
    span = span_take(superslab, first, slices, kind, zeroed);
    lists_update(superslab);
  }
  if (span != NULL || from_os)
    counters_supply(counted_class, from_os ? SUPPLY_MISS : SUPPLY_HIT, 1);
  return span;
}

struct slab *span_acquire(unsigned slices, unsigned alignment, enum slab_kind kind,
                          enum span_pages pages, unsigned counted_class, bool *zeroed) {
  unsigned first = 0;
  bool from_os = false;
  unsigned node = node_now();
  lock_acquire(&superslab_lock);
  bool whole = pages == PAGES_FRESH && lists_may_spread();
  bool fenced = kind == KIND_LARGE && guard_pages_wanted();
  struct superslab *superslab = NULL;
  if (kind == KIND_LARGE && option_value(SS_MEM_LEAN))
    superslab = lists_find_room(node, slices, alignment, true, fenced, ROOM_AT_FORMER_END, &first);
  if (superslab == NULL)
    superslab = lists_find_room(node, slices, alignment, !whole, fenced, ROOM_ANYWHERE, &first);
  /* What is in memory already is better than both. */
  if (superslab == NULL && whole)
    superslab = lists_find_room(node, slices, alignment, true, fenced, ROOM_IN_MEMORY, &first);
  if (superslab == NULL) {
    lock_release(&superslab_lock);
    bool as_sample = kind == KIND_LARGE && alignment == 1;
    superslab = superslab_new(pages != PAGES_SMALL, as_sample, fenced, &from_os);
    first = fenced ? alignment : 0; /* behind the slice that is guarded */
    lock_acquire(&superslab_lock);
    if (superslab != NULL) {
      lists_insert(superslab);
      /* All of it, when it comes out of the warm pool. */
      lists_count_dirty(0, dirty_slices_of(superslab));
    } else {
      if (whole)
        superslab = lists_find_room(node, slices, alignment, true, fenced, ROOM_ANYWHERE, &first);
      if (superslab == NULL) superslab = lists_find_far(node, slices, alignment, fenced, &first);
    }
  }
  struct slab *span = take_found(superslab, first, slices, kind, counted_class, from_os, zeroed);
  lock_release(&superslab_lock);
  return kind == KIND_SLAB ? with_guard(span) : span;
}

struct slab *span_acquire_left(unsigned slices, unsigned alignment, enum slab_kind kind,
                               unsigned counted_class, bool *zeroed) {
  unsigned first = 0, node = node_now();
  bool apart = guard_pages_wanted(), fenced = kind == KIND_LARGE && apart;
  struct superslab *superslab = NULL;
  lock_acquire(&superslab_lock);
  for (int i = 0; i < (apart ? 2 : 1) && superslab == NULL; i++, fenced = !fenced) {
    superslab = lists_find_room(node, slices, alignment, true, fenced, ROOM_ANYWHERE, &first);
    if (superslab == NULL) superslab = lists_find_far(node, slices, alignment, fenced, &first);
  }
  struct slab *span = take_found(superslab, first, slices, kind, counted_class, false, zeroed);
  lock_release(&superslab_lock);
  return kind == KIND_SLAB ? with_guard(span) : span;
}

/* Makes [first, first + slices) free; result as of emptied_or_listed. */
static bool slices_free(struct superslab *superslab, unsigned first, unsigned slices,
                        uint32_t dirty) {
  HAK_CHECK((superslab->free_mask & slices_mask(first, slices)) == 0);
  for (unsigned i = first; i < first + slices; i++) {
    atomic_store_explicit(&superslab->slabs[i].kind, KIND_FREE, memory_order_relaxed);
    if (HAK_HARDENED) superslab->slabs[i].was_used = true;
  }
  if (HAK_UNLIKELY(superslab->era != superslab_lists.era)) return false;
  unsigned before = dirty_slices_of(superslab);
  lists_count_in_use(-(ptrdiff_t)slices);
  superslab->free_mask |= slices_mask(first, slices);
  superslab->dirty_mask |= dirty;
  superslab->age = 0;
  lists_count_dirty(before, dirty_slices_of(superslab));
  return emptied_or_listed(superslab);
}

/* Under the lock; the same result. */
static bool span_free(struct slab *span) {
  unsigned slices = span->slices;
  /* Slices of a slab that were never carved stay known as zero. */
  unsigned dirty = slices;
  if (atomic_load_explicit(&span->kind, memory_order_relaxed) == KIND_SLAB) {
    dirty = (unsigned)((span->touched + SLICE_BYTES - 1) >> SLICE_SHIFT);
    if (dirty > slices) dirty = slices;
  }
  struct superslab *superslab = superslab_of(span);
  if (HAK_HARDENED) superslab->guards |= span_guards(span);
  return slices_free(superslab, span->index, slices, slices_mask(span->index, dirty));
}

size_t superslab_bytes_in_use(void) {
  return atomic_load_explicit(&superslab_lists.slices_in_use, memory_order_relaxed) << SLICE_SHIFT;
}

bool superslab_is_busy(void) { return lock_is_taken(&superslab_lock); }

void span_release(struct slab *span) {
  struct superslab *superslab = superslab_of(span);
  os_unlock_part(slab_base(span), bytes_of(span));
  lock_acquire(&superslab_lock);
  bool is_empty = span_free(span);
  lock_release(&superslab_lock);
  if (is_empty) emptied_release(superslab);
}

void span_release_soon(struct slab *span) {
  struct superslab *superslab = superslab_of(span);
  os_unlock_part(slab_base(span), bytes_of(span));
  lock_acquire(&superslab_lock);
  if (span_free(span)) emptied_put_off(superslab);
  lock_release(&superslab_lock);
}

bool span_resize(struct slab *span, unsigned slices) {
  struct superslab *superslab = superslab_of(span);
  unsigned old = span->slices, first = span->index;
  bool done = true, zeroed;
  size_t usable = span_usable(span);
  if (slices == old) return true;
  if (slices < old)
    os_unlock_part(slab_base(span) + ((size_t)slices << SLICE_SHIFT), (size_t)(old - slices)
                                                                          << SLICE_SHIFT);
  lock_acquire(&superslab_lock);
  if (slices < old) {
    if (HAK_HARDENED)
      superslab->guards |= span_guards(span) & slices_mask(first + slices, old - slices);
    span->slices = (uint8_t)slices;
    slices_free(superslab, first + slices, old - slices, slices_mask(first + slices, old - slices));
  } else {
    uint32_t more = slices_mask(first + old, slices - old);
    done = first + slices <= SLICES_PER_UNIT && (superslab->free_mask & more) == more &&
           superslab->era == superslab_lists.era;
    if (done) {
      span_take(superslab, first + old, slices - old, KIND_LARGE, &zeroed);
      for (unsigned i = old; i < slices; i++) span[i].offset = (uint8_t)i;
      span->slices = (uint8_t)slices;
      lists_update(superslab);
    }
  }
  span_keep_usable(span, usable);
  lock_release(&superslab_lock);
  return done;
}

#if HAK_HARDENED

/* It is taken for as long as it gets its guard, so that no other block gets it meanwhile. */
void span_guard_front(struct slab *span) {
  struct superslab *superslab = superslab_of(span);
  struct slab *front = NULL;
  if (span->index == 0)
    return; /* not in a fenced SuperSlab, of which the first slice is no span's */
  unsigned before = span->index - 1u;
  uint32_t mask = UINT32_C(1) << before;
  bool zeroed;
  lock_acquire(&superslab_lock);
  if ((superslab->free_mask & mask) != 0 && (superslab->guards & mask) == 0 &&
      superslab->era == superslab_lists.era) {
    front = span_take(superslab, before, 1, KIND_LARGE, &zeroed);
    lists_update(superslab);
  }
  lock_release(&superslab_lock);
  if (front == NULL) return;
  front->guarded = SLICE_BYTES;
  span_guard_again(front);
  span_release(front);
}

#endif

/* --- fork ---------------------------------------------------------------------------------------------- */

void superslab_each_lock(lock_visit *visit, void *argument) {
  visit(&superslab_lock, argument);
  visit(&unit_lock, argument);
  visit(&meta_lock, argument);
}

/* The lists may be cut in half: new ones, and those SuperSlabs are in none any more. Their blocks can be freed, but nothing
 * more is taken from them, and they are not given up. */
static void forget_lists(void) {
  lists_forget();
  descriptors_forget();
  dense_forget_all();
}

void superslab_fork_child(void) {
  random_place_fork_child();
  os_locked_fork_child();
  bool whole = lock_is_whole_in_child(&superslab_lock);
  collapse_fork_child(whole);
  if (!whole) forget_lists();
  if (!lock_is_whole_in_child(&unit_lock)) unit_forget();
  if (!lock_is_whole_in_child(&meta_lock)) meta_forget();
}
