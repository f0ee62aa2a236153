/* hak.c - the hak_* functions of include/hakmem.h. */
#include "hakmem.h"

#include <string.h>

#include "api/api.h"
#include "api/totals.h"
#include "policy/options.h"
#include "release/release.h"

HAK_EXPORT void *hak_malloc(size_t size) { return api_malloc(size); }

HAK_EXPORT void *hak_calloc(size_t count, size_t size) { return api_calloc(count, size); }

HAK_EXPORT void *hak_realloc(void *ptr, size_t size) { return api_realloc(ptr, size); }

HAK_EXPORT void *hak_reallocarray(void *ptr, size_t count, size_t size) {
  return api_reallocarray(ptr, count, size);
}

HAK_EXPORT void hak_free(void *ptr) { api_free(ptr); }

HAK_EXPORT void hak_free_sized(void *ptr, size_t size) { api_free_sized(ptr, size); }

HAK_EXPORT void hak_free_aligned_sized(void *ptr, size_t alignment, size_t size) {
  api_free_aligned_sized(ptr, alignment, size);
}

HAK_EXPORT void *hak_aligned_alloc(size_t alignment, size_t size) {
  return api_aligned_alloc(alignment, size);
}

HAK_EXPORT int hak_posix_memalign(void **out, size_t alignment, size_t size) {
  return api_posix_memalign(out, alignment, size);
}

HAK_EXPORT size_t hak_usable_size(const void *ptr) { return api_usable_size(ptr); }

HAK_EXPORT bool hak_owns(const void *ptr) { return block_is_ours(ptr); }

HAK_EXPORT size_t hak_room(const void *ptr) { return front_room(ptr); }

HAK_EXPORT bool hak_should_move(const void *ptr) { return front_should_move(ptr); }

HAK_EXPORT void hak_free_moved(void *ptr) { front_free_moved(ptr); }

HAK_EXPORT size_t hak_purge(void) { return release_purge(); }

HAK_EXPORT const char *hak_version(void) { return HAKMEM_VERSION_STRING; }

HAK_EXPORT const char *hak_variant(void) { return HAK_VARIANT_NAME; }

static void fill_stats(struct hak_stats *stats) {
  struct totals totals;
  totals_get(&totals, false);
  stats->version = 1;
  stats->superslabs_live = totals.superslab.live;
  stats->superslabs_warm = totals.unit.units_warm;
  stats->superslabs_peak = totals.superslab.peak;
  stats->huge_live = totals.superslab.huge_live;
  stats->huge_bytes = totals.superslab.huge_bytes;
  stats->heaps_active = totals.heaps_active;
  stats->heaps_parked = totals.heaps_parked;
  stats->os_mmap = atomic_load_explicit(&os_counts.mmap, memory_order_relaxed);
  stats->os_munmap = atomic_load_explicit(&os_counts.munmap, memory_order_relaxed);
  stats->os_mprotect = atomic_load_explicit(&os_counts.mprotect, memory_order_relaxed);
  stats->os_madvise = atomic_load_explicit(&os_counts.madvise, memory_order_relaxed);
  stats->os_mremap = atomic_load_explicit(&os_counts.mremap, memory_order_relaxed);
  stats->os_failed = atomic_load_explicit(&os_counts.failed, memory_order_relaxed);
  stats->bytes_mapped = totals.unit.bytes_mapped;
  stats->bytes_slab = totals.superslab.slab_bytes;
  stats->bytes_metadata = totals.metadata_bytes;
}

HAK_EXPORT int hak_stats_get(struct hak_stats *stats) {
  struct hak_stats all;
  if (stats == NULL) return EINVAL;
  fill_stats(&all);
  return api_copy_known(stats, &all, stats->size, sizeof all);
}

HAK_EXPORT int hak_memory_stats_get(struct hak_memory_stats *stats) {
  if (stats == NULL) return EINVAL;
  struct totals totals;
  totals_get(&totals, true);
  struct hak_memory_stats all = {.version = 1,
                                 .resident = os_resident_bytes(),
                                 .live = totals.in_use,
                                 .pinned = totals.pinned,
                                 .bins = totals.in_bins,
                                 .cached = totals.cached,
                                 .metadata = totals.metadata_bytes,
                                 .given = totals.given};
  return api_copy_known(stats, &all, stats->size, sizeof all);
}

HAK_EXPORT int hak_class_stats_get(unsigned number, struct hak_class_stats *stats) {
  if (number >= COUNTED_CLASSES || stats == NULL || stats->size < sizeof *stats) return EINVAL;
  struct class_totals totals;
  totals_of_class(number, &totals);
  stats->version = 1;
  stats->tier = number == COUNTED_LARGE  ? HAK_TIER_LARGE
                : number == COUNTED_HUGE ? HAK_TIER_HUGE
                                         : HAK_TIER_SMALL;
  stats->counting = option_counting();
  stats->block_size = totals.size;
  stats->alloc = totals.alloc;
  stats->free = totals.free;
  stats->fast = totals.of[COUNT_FAST];
  stats->slow = totals.of[COUNT_SLOW];
  stats->free_fast_local = totals.of[COUNT_FREE_LOCAL];
  stats->free_remote = totals.of[COUNT_FREE_REMOTE];
  stats->warm_hits = totals.supply[SUPPLY_HIT];
  stats->warm_misses = totals.supply[SUPPLY_MISS];
  stats->warm_prefilled = totals.supply[SUPPLY_PREFILLED];
  return 0;
}
