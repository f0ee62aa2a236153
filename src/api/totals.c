/* totals.c - see totals.h. */
#include "api/totals.h"

#include "heap/absent.h"
#include "heap/named.h"
#include "heap/samples.h"
#include "sample/guarded.h"
#include "sample/records.h"

/* Bins belong to their threads, which do not lock them; a figure read in passing may be old, never
 * wild: it is one aligned word. */
__attribute__((no_sanitize("thread"))) static uint64_t bytes_held(struct arena *arena) {
  uint64_t bytes = 0;
  if (arena == &heap_samples) return 0; /* it has no bins */
  const struct bin *bins =
      named_is(arena) ? ((struct hak_heap *)(void *)arena)->bins : cache_beside(arena)->bins;
  for (unsigned c = 0; c < CLASS_COUNT; c++) {
    const volatile struct bin *bin = &bins[c];
    int64_t blocks = (int64_t)bin->capacity - bin->room;
    if (blocks > 0) bytes += (uint64_t)blocks * class_size(c);
  }
  int64_t sent_back = atomic_load_explicit(&arena->inbox_bytes, memory_order_relaxed);
  return sent_back > 0 ? bytes + (uint64_t)sent_back : bytes;
}

/* The pool is under a lock of its own, hence of another moment: it is no more than what is mapped beside the rest. */
static uint64_t plausible_warm(uint64_t units_warm, const struct superslab_stats *s) {
  uint64_t others = (s->live << UNIT_SHIFT) + s->huge_bytes;
  uint64_t rest = s->bytes_mapped > others ? (s->bytes_mapped - others) >> UNIT_SHIFT : 0;
  return units_warm < rest ? units_warm : rest;
}

/* Without the sampler's lock: each figure is one word. */
static void fill_peak(struct totals *totals) {
  uint64_t now = os_clock_ms(), then = LOAD(samples.peak.since_ms);
  totals->peak = LOAD(samples.peak.bytes);
  totals->peak_samples = LOAD(samples.peak.samples);
  totals->peak_ms = totals->peak != 0 && now > then ? now - then : 0;
}

/* All but what is under the lock of SuperSlabs. */
static void fill(struct totals *totals, bool deep) {
  unit_stats_get(&totals->unit);
  totals->unit.bytes_mapped = totals->superslab.bytes_mapped;
  totals->unit.units_warm = plausible_warm(totals->unit.units_warm, &totals->superslab);
  heap_counts(&totals->heaps_active, &totals->heaps_parked);
  totals->metadata_bytes = meta_bytes_used();
  fill_peak(totals);
  totals->in_use = totals->in_bins = totals->pinned = totals->cached = totals->given = 0;
  totals->lost = 0;
  if (!deep) return;
  for (struct arena *arena = arena_first(); arena != NULL; arena = arena->next)
    totals->in_bins += bytes_held(arena);
  const struct superslab_stats *s = &totals->superslab;
  totals->lost = absent_lost_bytes();
  uint64_t out = s->block_bytes_carved - s->block_bytes_free; /* never below 0 */
  uint64_t not_live = totals->in_bins + totals->lost;
  totals->in_use = (out > not_live ? out - not_live : 0) + s->large_bytes + s->huge_bytes;
  totals->in_use += guarded_live_bytes();
  /* few samples may stand for less than lives now, which is counted */
  if (totals->peak_samples > 0 && totals->peak < totals->in_use) totals->peak = totals->in_use;
  totals->given = s->hole_bytes + s->decommitted_bytes;
  totals->pinned = s->block_bytes_free > s->hole_bytes ? s->block_bytes_free - s->hole_bytes : 0;
  totals->cached = s->cached_bytes + s->dirty_bytes + (totals->unit.units_warm << UNIT_SHIFT);
}

bool totals_get(struct totals *totals, bool deep) {
  /* Locks are taken: from here on a fork has to look after them, also in a process that has allocated nothing. */
  (void)heap_start();
  bool got = superslab_stats_get(&totals->superslab, deep);
  fill(totals, deep && got);
  return got;
}

bool totals_try(struct totals *totals, bool deep) {
  bool got = superslab_stats_try(&totals->superslab, deep);
  fill(totals, deep && got);
  return got;
}

void totals_of_class(unsigned counted_class, struct class_totals *totals) {
  totals->size = counted_class < CLASS_COUNT ? class_size(counted_class) : 0;
  for (int i = 0; i < SUPPLIES; i++)
    totals->supply[i] = counters_read(&counters_supplied[counted_class][i]);
  for (int i = 0; i < COUNTERS; i++)
    totals->of[i] = counters_read(&counters_shared.of[counted_class][i]);
  for (const struct arena *arena = arena_first(); arena != NULL; arena = arena->next)
    for (int i = 0; i < COUNTERS && arena->counters != NULL; i++)
      totals->of[i] += counters_read(&arena->counters->of[counted_class][i]);
  totals->alloc = totals->of[COUNT_FAST] + totals->of[COUNT_SLOW];
  totals->free = totals->of[COUNT_FREE_LOCAL] + totals->of[COUNT_FREE_REMOTE];
}
