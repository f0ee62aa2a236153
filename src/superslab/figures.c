/* figures.c - see figures.h. */
#include "superslab/figures.h"

#include <string.h>

#include "superslab/dirty.h"
#include "superslab/lists.h"
#include "superslab/map.h"
#include "superslab/unit.h"

/* --- units ------------------------------------------------------------------------------------------ */

void unit_stats_get(struct unit_stats *stats) {
  stats->units_warm = unit_warm_bytes() >> UNIT_SHIFT;
  stats->bytes_mapped = unit_mapped_bytes();
  stats->acquired = atomic_load_explicit(&unit_counts.acquired, memory_order_relaxed);
  stats->released = atomic_load_explicit(&unit_counts.released, memory_order_relaxed);
  stats->fallback_mmap = atomic_load_explicit(&unit_counts.fallback_mmap, memory_order_relaxed);
  stats->huge_alloc = atomic_load_explicit(&unit_counts.huge_alloc, memory_order_relaxed);
  stats->huge_fail = atomic_load_explicit(&unit_counts.huge_fail, memory_order_relaxed);
  stats->decommit_disabled =
      atomic_load_explicit(&unit_counts.decommit_disabled, memory_order_relaxed);
}

/* --- SuperSlabs ------------------------------------------------------------------------------------- */

/* All of one moment; under superslab_lock. */
static void read_sums(struct superslab_stats *stats) {
  stats->live = superslab_lists.live;
  stats->peak = superslab_lists.peak;
  for (unsigned node = 0; node < node_end(); node++) stats->live_of[node] = lists_of(node)->live;
  huge_counts(&stats->huge_live, &stats->huge_bytes);
  stats->bytes_mapped = unit_mapped_bytes();
  stats->slab_bytes = superslab_lists.slices_in_use << SLICE_SHIFT;
  stats->dirty_bytes = superslab_dirty_bytes();
}

static void add_slab(const struct slab *slab, uint64_t bytes, struct superslab_stats *stats) {
  uint64_t size = atomic_load_explicit(&slab->block_size, memory_order_relaxed);
  uint64_t in_holes = atomic_load_explicit(&slab->hole_count, memory_order_relaxed);
  uint64_t free = atomic_load_explicit(&slab->free_count, memory_order_relaxed) + in_holes;
  uint64_t carved = atomic_load_explicit(&slab->carved, memory_order_relaxed);
  /* Its owner changes them while they are read, so that they may be of different moments. */
  if (size * carved > bytes) carved = bytes / size;
  stats->block_bytes_carved += size * carved;
  stats->block_bytes_free += size * (free < carved ? free : carved);
  for (unsigned i = 0; i < slab->slices && slab->index + i < SLICES_PER_UNIT; i++)
    stats->hole_bytes += slice_holes(&slab[i]) * os_page_size();
}

static void add_spans(const struct superslab *superslab, struct superslab_stats *stats) {
  for (unsigned i = 0; i < SLICES_PER_UNIT; i++) {
    const struct slab *span = &superslab->slabs[i];
    if ((superslab->free_mask >> i & 1) != 0 || span->offset != 0) continue;
    uint8_t kind = atomic_load_explicit(&span->kind, memory_order_relaxed);
    uint64_t bytes = (uint64_t)span->slices << SLICE_SHIFT;
    if (kind == KIND_LARGE) stats->large_bytes += bytes;
    else if (kind == KIND_CACHED || kind == KIND_DECOMMITTING) stats->cached_bytes += bytes;
    else if (kind == KIND_DECOMMITTED) stats->decommitted_bytes += bytes;
    else if (kind == KIND_SLAB) add_slab(span, bytes, stats);
  }
}

/* --- the walk -------------------------------------------------------------------------------------- */

/* In one hold of the lock, for which others may have to wait: 16 times 32 descriptors, a cache miss each. */
enum { UNITS_AT_ONCE = 16 };

typedef bool take_lock(void);

/* The lock: while it is held no SuperSlab leaves the map, and no descriptor is used for something else. Those of before a fork
 * that has lost the lists are left out, as in the sums. */
static void add_units(uintptr_t address, struct superslab_stats *stats) {
  for (unsigned i = 0; i < UNITS_AT_ONCE; i++, address += UNIT_BYTES) {
    const struct superslab *superslab =
        map_superslab((void *)address); // NOLINT(performance-no-int-to-ptr)
    if (superslab == NULL || superslab->huge_units != 0) continue;
    if (superslab->era == superslab_lists.era) add_spans(superslab, stats);
  }
}

/* By address, so that each SuperSlab is found once, in whatever list it is meanwhile. False: the lock could not be had. */
static bool walk(take_lock *take, struct superslab_stats *stats) {
  for (uintptr_t leaf = 0; leaf < MAP_LEAVES; leaf++) {
    if (atomic_load_explicit(&map.root[leaf], memory_order_relaxed) == 0) continue;
    for (unsigned unit = 0; unit < LEAF_UNITS; unit += UNITS_AT_ONCE) {
      if (!take()) return false;
      add_units((leaf << LEAF_SHIFT) + ((uintptr_t)unit << UNIT_SHIFT), stats);
      lock_release_in_turn(&superslab_lock);
    }
  }
  return true;
}

static bool get(take_lock *take, struct superslab_stats *stats, bool deep) {
  memset(stats, 0, sizeof *stats);
  if (!take()) return false;
  read_sums(stats);
  lock_release(&superslab_lock);
  if (!deep || walk(take, stats)) return true;
  memset(stats, 0, sizeof *stats);
  return false;
}

/* The thread's own: a signal handler that ends the program has interrupted it inside. */
static bool wait_for_lock(void) {
  if (HAK_UNLIKELY(lock_holder(&superslab_lock) == LOCK_MINE)) return false;
  lock_acquire(&superslab_lock);
  return true;
}

static bool try_lock(void) {
  enum { TRIES = 100 };
  /* The thread's own, for a fork or because it was interrupted inside: it may be half done. */
  for (int i = 0; i < TRIES && lock_holder(&superslab_lock) == LOCK_OTHERS; i++) {
    if (lock_try(&superslab_lock)) return true;
    os_yield();
  }
  return false;
}

bool superslab_stats_get(struct superslab_stats *stats, bool deep) {
  return get(wait_for_lock, stats, deep);
}

bool superslab_stats_try(struct superslab_stats *stats, bool deep) {
  return get(try_lock, stats, deep);
}
