/* atexit.c - the statistics that HAKMEM_*_STATS ask for, when the program ends. */
#include "api/statistics.h"
#include "observe/report.h"
#include "policy/options.h"

typedef unsigned (*totals_statistics)(const struct totals *, struct figure *);
typedef unsigned (*class_statistics)(const struct class_totals *, struct figure *);

static void print_figures(struct report *line, const struct figure *figures, unsigned count) {
  for (unsigned i = 0; i < count; i++) {
    report_text(line, " ");
    report_text(line, figures[i].name);
    report_text(line, "=");
    report_number(line, figures[i].value);
  }
  report_end(line);
}

static void print_totals(const char *label, totals_statistics statistics, bool deep) {
  struct totals totals;
  struct figure figures[FIGURES_MOST];
  struct report line;
  totals_get(&totals, deep);
  report_start_bare(&line);
  report_text(&line, label);
  print_figures(&line, figures, statistics(&totals, figures));
}

/* A line for each class of which there is something to tell. */
static void print_classes(const char *label, class_statistics statistics, unsigned classes) {
  for (unsigned c = 0; c < classes; c++) {
    struct class_totals totals;
    struct figure figures[FIGURES_MOST];
    struct report line;
    totals_of_class(c, &totals);
    unsigned count = statistics(&totals, figures);
    if (!statistics_any(figures, count)) continue;
    report_start_bare(&line);
    report_text(&line, label);
    report_text(&line, " class=");
    if (c == COUNTED_LARGE) {
      report_text(&line, "large");
    } else if (c == COUNTED_HUGE) {
      report_text(&line, "huge");
    } else {
      report_number(&line, c);
      report_text(&line, " size=");
      report_number(&line, totals.size);
    }
    print_figures(&line, figures, count);
  }
}

/* A destructor rather than atexit(), which may allocate and would cost every program a call. */
__attribute__((destructor)) static void at_exit(void) {
  bool all = option_value(STATS) == STATS_TEXT;
  bool counted = option_value(TINY_HEAP_STATS) || HAK_OBSERVE;
  bool heaps = all || (counted && option_value(TINY_HEAP_STATS_DUMP));
  if (all || option_value(SS_OS_STATS)) print_totals("[SS_OS_STATS]", statistics_os, false);
  if (all) print_totals("[MEMORY_STATS]", statistics_memory, true);
  if (all || option_value(WARM_POOL_STATS))
    print_classes("[WARM_POOL_STATS]", statistics_warm_pool, COUNTED_CLASSES);
  if (heaps) print_classes("[TINY_HEAP_STATS]", statistics_heap, COUNTED_LARGE);
  if (all || option_value(TINY_FRONT_CLASS_STATS))
    print_classes("[TINY_FRONT_CLASS_STATS]", statistics_front, COUNTED_CLASSES);
  if (HAK_OBSERVE && heaps) {
    print_classes("[REFILL_STATS]", statistics_refill, COUNTED_LARGE);
    print_classes("[FREE_PIPELINE]", statistics_free, COUNTED_LARGE);
  }
  if (option_value(STATS) == STATS_JSON) statistics_print_json();
}
