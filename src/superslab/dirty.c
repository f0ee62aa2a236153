/* dirty.c - see dirty.h. */
#include "superslab/dirty.h"

#include "observe/report.h"
#include "superslab/emptied.h"
#include "superslab/lists.h"
#include "superslab/unit_os.h"

size_t superslab_dirty_bytes(void) {
  return atomic_load_explicit(&superslab_lists.dirty_slices, memory_order_relaxed) << SLICE_SHIFT;
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
  lock_acquire(&superslab_lock);
  atomic_store_explicit(&superslab->split, true, memory_order_relaxed);
  /* Slices that nobody has used yet got pages with the first use of another. (Of another era: nothing is taken from it any more.) */
  if (HAK_LIKELY(superslab->era == superslab_lists.era)) {
    unsigned before = dirty_slices_of(superslab);
    superslab->dirty_mask |= superslab->free_mask;
    lists_count_dirty(before, dirty_slices_of(superslab));
  }
  lock_release(&superslab_lock);
  /* Else the kernel would put it together again, empty pages and all: a heap of 80 MB became 93 MB so. */
  unit_advise_small(superslab->base, 1);
  if (atomic_load_explicit(&unit_limited, memory_order_relaxed)) os_split(superslab->base);
}

/* The list of that number, those of one node after those of the other. The first of each has no free slices. */
static struct superslab *list_numbered(unsigned number) {
  return number % LISTS == 0 ? NULL : lists_of(number / LISTS)->of[number % LISTS];
}

unsigned superslab_take_dirty(struct dirty_cursor *cursor, unsigned idle_scans,
                              struct dirty_slices *sets, unsigned most, size_t *unexpired) {
  enum { SCANNED_AT_ONCE = 64 }; /* in one hold of the lock, for which others may have to wait */
  unsigned taken = 0, scanned = 0;
  lock_acquire(&superslab_lock);
  if (!cursor->started) superslab_lists.next_scanned = NULL;
  cursor->started = true;
  while (taken < most) {
    if (++scanned % SCANNED_AT_ONCE == 0) {
      lock_release_in_turn(&superslab_lock);
      lock_acquire(&superslab_lock);
    }
    if (superslab_lists.next_scanned == NULL) {
      if (cursor->list == node_end() * LISTS - 1) break;
      superslab_lists.next_scanned = list_numbered(++cursor->list);
      continue;
    }
    struct superslab *superslab = superslab_lists.next_scanned;
    superslab_lists.next_scanned = superslab->next;
    unsigned dirty = dirty_slices_of(superslab);
    if (dirty == 0 || !superslab_may_split(superslab, dirty, idle_scans == 0)) continue;
    if (superslab->age < idle_scans) {
      superslab->age++;
      *unexpired += (size_t)dirty << SLICE_SHIFT;
      continue;
    }
    uint32_t mask = dirty_mask_of(superslab);
    superslab->free_mask &= ~mask;
    lists_count_dirty(dirty, 0);
    lists_update(superslab);
    sets[taken++] = (struct dirty_slices){superslab, mask};
  }
  lock_release(&superslab_lock);
  return taken;
}

void superslab_put_clean(struct dirty_slices set, bool zeroed) {
  struct superslab *superslab = set.superslab;
  lock_acquire(&superslab_lock);
  /* A handler that interrupted this has forked, and its child has forgotten the lists. */
  if (HAK_UNLIKELY(superslab->era != superslab_lists.era)) {
    lock_release(&superslab_lock);
    return;
  }
  unsigned before = dirty_slices_of(superslab);
  superslab->free_mask |= set.mask;
  if (zeroed) superslab->dirty_mask &= ~set.mask;
  else superslab->lazily_freed_mask |= set.mask;
  /* A slice that still has a guard of a former use keeps its mark: it says whose guard that may be. */
  superslab->ends &= ~set.mask | superslab->guards;
  lists_count_dirty(before, dirty_slices_of(superslab));
  bool is_empty = emptied_or_listed(superslab);
  lock_release(&superslab_lock);
  if (is_empty) emptied_release(superslab);
}

__attribute__((no_sanitize("thread"))) unsigned slice_holes(const struct slab *slice) {
  return (unsigned)__builtin_popcount(*(const volatile uint16_t *)&slice->holes);
}
