/* statistics.h - how figures are written: the names that lines, JSON and XML share. */
#ifndef HAK_STATISTICS_H
#define HAK_STATISTICS_H

#include "api/totals.h"

struct figure {
  const char *name;
  uint64_t value;
};

/* Room for the figures of any of the groups below. */
enum { FIGURES_MOST = 16 };

/* Each fills `figures` and returns how many. */

/** [SS_OS_STATS]. */
unsigned statistics_os(const struct totals *totals, struct figure figures[FIGURES_MOST]);
/** [MEMORY_STATS]; of totals taken with `deep`. */
unsigned statistics_memory(const struct totals *totals, struct figure figures[FIGURES_MOST]);
/** [WARM_POOL_STATS]. */
unsigned statistics_warm_pool(const struct class_totals *totals,
                              struct figure figures[FIGURES_MOST]);
/** [TINY_HEAP_STATS]. */
unsigned statistics_heap(const struct class_totals *totals, struct figure figures[FIGURES_MOST]);
/** [TINY_FRONT_CLASS_STATS]. */
unsigned statistics_front(const struct class_totals *totals, struct figure figures[FIGURES_MOST]);
/** [REFILL_STATS]; nothing but zeros outside of the observe variant, as below. */
unsigned statistics_refill(const struct class_totals *totals, struct figure figures[FIGURES_MOST]);
/** [FREE_PIPELINE]. */
unsigned statistics_free(const struct class_totals *totals, struct figure figures[FIGURES_MOST]);

bool statistics_any(const struct figure *figures, unsigned count);

/** Writes what was asked for, as far as it can be had without waiting. Async-signal-safe. */
void statistics_at_signal(void);

struct sheet;
/** Ten lines about the process. `complete`: `totals` are. */
void statistics_put_summary(struct sheet *sheet, const struct totals *totals, bool complete,
                            bool at_exit);

/** One line of JSON with all figures. `complete`: `totals` are; else those of them that may be wrong are left out. */
void statistics_put_json(struct sheet *sheet, const struct totals *totals, bool complete,
                         bool at_exit);

#endif
