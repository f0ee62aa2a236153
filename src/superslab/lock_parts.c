/* lock_parts.c - see lock_parts.h. */
#include "superslab/lock_parts.h"

#include "superslab/guard_pages.h"
#include "superslab/lists.h"
#include "superslab/map.h"
#include "superslab/unit_os.h"

void *span_locked(struct slab *span) {
  if (span == NULL || HAK_LIKELY(span_lock(span))) return span != NULL ? slab_base(span) : NULL;
  span_release(span);
  return NULL;
}

struct superslab *huge_locked(struct superslab *superslab) {
  if (superslab == NULL || HAK_LIKELY(os_lock_part(superslab->base, superslab->huge_usable)))
    return superslab;
  huge_release(superslab, superslab->base);
  return NULL;
}

bool huge_lock_resized(const struct superslab *superslab, size_t bytes) {
  size_t usable = round_to_page(bytes), old = superslab->huge_usable;
  if (usable >= old) return os_lock_part(superslab->base, usable);
  os_unlock_part(superslab->base + usable, old - usable);
  return true;
}

bool huge_lock_moved(const struct superslab *from, size_t units, const struct superslab *to) {
  size_t moved = units << UNIT_SHIFT;
  if (to->huge_usable > moved && !os_lock_part(to->base + moved, to->huge_usable - moved))
    return false;
  return os_lock_part(from->base, moved);
}

/* --- what was locked before ---------------------------------------------------------------------------- */

static void unlock_free_slices(const struct superslab *superslab) {
  for (uint32_t mask = superslab->free_mask; mask != 0;) {
    unsigned first = (unsigned)__builtin_ctz(mask), count = 1;
    while (first + count < SLICES_PER_UNIT && (mask >> (first + count) & 1) != 0) count++;
    os_unlock_part(superslab->base + ((size_t)first << SLICE_SHIFT), (size_t)count << SLICE_SHIFT);
    mask &= ~slices_mask(first, count);
  }
}

/* superslab_lock: no free slice is handed out meanwhile. */
static void unlock_in(uintptr_t address) {
  const struct superslab *superslab =
      map_superslab((void *)address); // NOLINT(performance-no-int-to-ptr)
  if (superslab == NULL) return;
  if (superslab->huge_units == 0) {
    unlock_free_slices(superslab);
  } else if (superslab->base == (char *)address) { // NOLINT(performance-no-int-to-ptr)
    size_t used = superslab->huge_usable, all = (size_t)superslab->huge_units << UNIT_SHIFT;
    if (used < all) os_unlock_part(superslab->base + used, all - used);
  }
}

static void unlock_leaf(uintptr_t leaf) {
  os_unlock_part(map_leaf_of(leaf << LEAF_SHIFT), sizeof(struct map_leaf));
  for (uintptr_t unit = 0; unit < LEAF_UNITS; unit++) {
    lock_acquire(&superslab_lock);
    unlock_in((leaf << LEAF_SHIFT) + (unit << UNIT_SHIFT));
    lock_release(&superslab_lock);
  }
}

void unlock_unused(void) {
  static atomic_bool done; /* relaxed: what is mapped later is not locked */
  if (HAK_LIKELY(!os_locks_parts_now())) return;
  if (atomic_exchange_explicit(&done, true, memory_order_relaxed)) return;
  unit_pool_lock();
  for (size_t i = 0; i < unit_pool.count; i++)
    os_unlock_part(unit_pool.runs[i].base, unit_pool.runs[i].units << UNIT_SHIFT);
  unit_pool_unlock();
  lock_acquire(&meta_lock);
  for (struct meta_chunk *chunk = meta_chunks; chunk != NULL; chunk = chunk->next)
    os_unlock_part(chunk, chunk->bytes);
  lock_release(&meta_lock);
  for (uintptr_t leaf = 0; leaf < MAP_LEAVES; leaf++)
    if (atomic_load_explicit(&map.root[leaf], memory_order_relaxed) != 0) unlock_leaf(leaf);
}
