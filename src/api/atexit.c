/* atexit.c - the statistics that HAKMEM_*STATS* ask for, when the program ends and when a signal asks.
 *
 * A signal handler may interrupt anything, the allocator and this file, too. So nothing here waits for a lock then, nor
 * allocates; what cannot be had is left out.
 */
#include <errno.h>
#include <string.h>

#include "api/statistics.h"
#include "observe/sheet.h"
#include "os/file.h"
#include "policy/options.h"

typedef unsigned (*totals_statistics)(const struct totals *, struct figure *);
typedef unsigned (*class_statistics)(const struct class_totals *, struct figure *);

static void put_figures(struct sheet *sheet, struct report *line, const struct figure *figures,
                        unsigned count) {
  for (unsigned i = 0; i < count; i++) {
    report_text(line, " ");
    report_text(line, figures[i].name);
    report_text(line, "=");
    report_number(line, figures[i].value);
  }
  sheet_end_line(sheet, line);
}

static void put_totals(struct sheet *sheet, const char *label, totals_statistics statistics,
                       const struct totals *totals) {
  struct figure figures[FIGURES_MOST];
  struct report line;
  report_start_bare(&line);
  report_text(&line, label);
  put_figures(sheet, &line, figures, statistics(totals, figures));
}

/* A line for each class of which there is something to tell. */
static void put_classes(struct sheet *sheet, const char *label, class_statistics statistics,
                        unsigned classes) {
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
    put_figures(sheet, &line, figures, count);
  }
}

static void put_lines(struct sheet *sheet, const struct totals *totals, bool complete) {
  bool all = option_value(STATS) == STATS_ALL;
  bool counted = option_value(TINY_HEAP_STATS) || HAK_OBSERVE;
  bool heaps = all || (counted && option_value(TINY_HEAP_STATS_DUMP));
  if (all || option_value(SS_OS_STATS)) put_totals(sheet, "[SS_OS_STATS]", statistics_os, totals);
  if (all && complete) put_totals(sheet, "[MEMORY_STATS]", statistics_memory, totals);
  if (all || option_value(WARM_POOL_STATS))
    put_classes(sheet, "[WARM_POOL_STATS]", statistics_warm_pool, COUNTED_CLASSES);
  if (heaps) put_classes(sheet, "[TINY_HEAP_STATS]", statistics_heap, COUNTED_LARGE);
  if (all || option_value(TINY_FRONT_CLASS_STATS))
    put_classes(sheet, "[TINY_FRONT_CLASS_STATS]", statistics_front, COUNTED_CLASSES);
  if (HAK_OBSERVE && heaps) {
    put_classes(sheet, "[REFILL_STATS]", statistics_refill, COUNTED_LARGE);
    put_classes(sheet, "[FREE_PIPELINE]", statistics_free, COUNTED_LARGE);
  }
}

/* --- where they go ------------------------------------------------------------------------------- */

/* HAKMEM_STATS_FILE with the number of this process for %p. False: it gets too long. */
static bool expand_path(char *path, size_t room) {
  struct report digits;
  struct sheet sheet = {.text = path, .room = room};
  report_start_bare(&digits);
  report_number(&digits, (uint64_t)os_process());
  for (const char *at = option_stats_file(); *at != 0; at++) {
    if (sheet.length + sizeof "4294967295" > room) return false;
    if (*at == '%' && *++at == 'p') sheet_put(&sheet, digits.text, digits.length);
    else sheet_put(&sheet, at, 1);
  }
  path[sheet.length] = 0;
  return true;
}

static bool has_process(const char *path) {
  for (; *path != 0; path++)
    if (*path == '%' && *++path == 'p') return true;
  return false;
}

static void complain(const char *path, int error) {
  struct report line;
  report_start(&line);
  report_text(&line, "HAKMEM_STATS_FILE: no statistics, for ");
  report_foreign_text(&line, path, strlen(path));
  report_text(&line, " cannot be written: ");
  report_text(&line, os_error_text(error));
  report_text(&line, " (error ");
  report_number(&line, (uint64_t)error);
  report_text(&line, ")");
  report_end(&line);
}

static void send(const struct sheet *sheet) {
  /* `writer` guards it; a signal's stack may have 8 KiB, of which the kernel takes up to 4. */
  static char path[2048];
  if (!option_value(STATS_FILE)) {
    os_write_error(sheet->text, sheet->length);
    return;
  }
  bool fits = expand_path(path, sizeof path);
  /* Names of processes can be foreseen: what lies in a directory for all must not lead us to another file. */
  bool follow = !has_process(option_stats_file());
  int error = fits ? os_file_append(path, follow, sheet->text, sheet->length) : ENAMETOOLONG;
  if (error != 0) complain(option_stats_file(), error);
}

/* --- when ---------------------------------------------------------------------------------------- */

/* A class takes at most 20 figures of 20 digits with names of up to 20 letters, in JSON and in lines; the rest takes less than
 * 8 classes would. Not touched, it takes no memory. */
static char buffer[(COUNTED_CLASSES + 8) * 2 * KIB];
/* The process of which a thread uses the buffer; 0: none. In the child of a fork that thread is not. */
static _Atomic uint32_t writer;

static bool claim(bool may_wait) {
  enum { PATIENCE_MS = 1000 }; /* that thread may have been stopped */
  uint32_t self = (uint32_t)os_process();
  for (int i = 0; i < PATIENCE_MS; i++) {
    uint32_t other = atomic_load(&writer);
    if (other != self && atomic_compare_exchange_strong(&writer, &other, self)) return true;
    if (!may_wait) return false;
    if (other == self) os_sleep_on(&writer, self, 1);
  }
  return false;
}

static HAK_NOINLINE void write_all(bool at_exit) {
  struct sheet sheet = {.text = buffer, .room = sizeof buffer};
  struct totals totals;
  if (!claim(at_exit)) return;
  bool deep = option_value(STATS) != STATS_OFF;
  bool complete = at_exit ? totals_get(&totals, deep) : totals_try(&totals, deep);
  if (option_value(STATS) == STATS_TEXT) statistics_put_summary(&sheet, &totals, complete, at_exit);
  put_lines(&sheet, &totals, complete);
  if (option_value(STATS) == STATS_JSON) statistics_put_json(&sheet, &totals, complete, at_exit);
  if (sheet.length > 0) send(&sheet);
  atomic_store(&writer, 0);
}

HAK_AT_LOAD static void write_statistics(bool at_exit) {
  if (option_printing()) write_all(at_exit);
}

void statistics_at_signal(void) { write_statistics(false); }

__attribute__((constructor)) HAK_AT_LOAD static void at_load(void) {
  os_on_signal(statistics_at_signal);
}

/* A destructor rather than atexit(), which may allocate and would cost every program a call. */
__attribute__((destructor)) HAK_AT_LOAD static void at_exit(void) { write_statistics(true); }
