/* superslab_figures.h - the figures of units and spans, each beside the running count that has to say the same,
 * and how much a test does. */
#ifndef SUPERSLAB_FIGURES_H
#define SUPERSLAB_FIGURES_H

#include "superslab/unit.h"
#include "unit_test.h"

#include "superslab/dirty.h"
#include "superslab/figures.h"

/* Single-threaded work, which ThreadSanitizer makes ten times slower and learns nothing from. Under an emulator, which is as slow,
 * it is the machine's page size that is tried. */
#if defined(__SANITIZE_THREAD__)
enum { EFFORT = 1 };
#elif defined(UNIT_EMULATED)
enum { EFFORT = 2 };
#else
enum { EFFORT = 8 };
#endif

static inline struct unit_stats unit_figures(void) {
  struct unit_stats stats;
  unit_stats_get(&stats);
  assert_int_equal(unit_warm_bytes(), stats.units_warm << UNIT_SHIFT);
  return stats;
}

static inline struct superslab_stats span_figures(void) {
  struct superslab_stats stats;
  superslab_stats_get(&stats, true);
  /* The running count that calls the purger, and what a walk finds. */
  assert_int_equal(superslab_dirty_bytes(), stats.dirty_bytes);
  return stats;
}

#endif
