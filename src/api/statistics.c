/* statistics.c - see statistics.h. */
#include "api/statistics.h"

#include "observe/report.h"

/* Fills an array from pairs of name and value. */
#define FILL(...)                                                                                  \
  const struct figure filled[] = {__VA_ARGS__};                                                    \
  _Static_assert(sizeof filled / sizeof filled[0] <= FIGURES_MOST, "a larger FIGURES_MOST");       \
  for (unsigned i = 0; i < sizeof filled / sizeof filled[0]; i++) figures[i] = filled[i];          \
  return sizeof filled / sizeof filled[0]

unsigned statistics_os(const struct totals *totals, struct figure figures[FIGURES_MOST]) {
  FILL({"alloc", totals->unit.acquired}, {"free", totals->unit.released},
       {"madvise", counters_read(&os_counts.madvise)},
       {"madvise_disabled", totals->unit.decommit_disabled},
       {"mmap_total", counters_read(&os_counts.mmap)},
       {"fallback_mmap", totals->unit.fallback_mmap}, {"huge_alloc", totals->unit.huge_alloc},
       {"huge_fail", totals->unit.huge_fail});
}

unsigned statistics_memory(const struct totals *totals, struct figure figures[FIGURES_MOST]) {
  FILL({"resident", os_resident_bytes()}, {"live", totals->in_use}, {"pinned", totals->pinned},
       {"bins", totals->in_bins}, {"cached", totals->cached}, {"metadata", totals->metadata_bytes},
       {"given", totals->given}, {"lost", totals->lost}, {"peak", totals->peak},
       {"peak_samples", totals->peak_samples}, {"peak_ms", totals->peak_ms});
}

unsigned statistics_warm_pool(const struct class_totals *totals,
                              struct figure figures[FIGURES_MOST]) {
  FILL({"hits", totals->supply[SUPPLY_HIT]}, {"misses", totals->supply[SUPPLY_MISS]},
       {"prefilled", totals->supply[SUPPLY_PREFILLED]});
}

unsigned statistics_heap(const struct class_totals *totals, struct figure figures[FIGURES_MOST]) {
  FILL({"fast", totals->of[COUNT_FAST]}, {"slow", totals->of[COUNT_SLOW]},
       {"free_fast_local", totals->of[COUNT_FREE_LOCAL]});
}

unsigned statistics_front(const struct class_totals *totals, struct figure figures[FIGURES_MOST]) {
  FILL({"alloc", totals->alloc}, {"free", totals->free});
}

unsigned statistics_refill(const struct class_totals *totals, struct figure figures[FIGURES_MOST]) {
  FILL({"ss_local", totals->of[COUNT_FROM_SLABS]}, {"ss_remote", totals->of[COUNT_FROM_OTHERS]},
       {"adopted", totals->of[COUNT_ADOPTED]}, {"carved", totals->of[COUNT_CARVED]},
       {"new_slab", totals->of[COUNT_NEW_SLAB]});
}

unsigned statistics_free(const struct class_totals *totals, struct figure figures[FIGURES_MOST]) {
  FILL({"tls_sll", totals->of[COUNT_FREE_LOCAL]}, {"ss_local", totals->of[COUNT_TO_SLABS]},
       {"ss_remote", totals->of[COUNT_FREE_REMOTE]});
}

bool statistics_any(const struct figure *figures, unsigned count) {
  for (unsigned i = 0; i < count; i++)
    if (figures[i].value != 0) return true;
  return false;
}
