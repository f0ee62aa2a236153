/* atexit.c - the lines that HAKMEM_*_STATS=1 asks for, when the program ends. */
#include "api/totals.h"
#include "observe/report.h"
#include "policy/options.h"

static void field(struct report *line, const char *name, uint64_t value) {
  report_text(line, name);
  report_number(line, value);
}

static uint64_t read_count(const _Atomic uint64_t *counter) {
  return atomic_load_explicit(counter, memory_order_relaxed);
}

static void print_os_stats(void) {
  struct totals totals;
  totals_get(&totals, false);
  struct report line;
  report_start_bare(&line);
  field(&line, "[SS_OS_STATS] alloc=", totals.unit.acquired);
  field(&line, " free=", totals.unit.released);
  field(&line, " madvise=", read_count(&os_counts.madvise));
  field(&line, " madvise_disabled=", totals.unit.decommit_disabled);
  field(&line, " mmap_total=", read_count(&os_counts.mmap));
  field(&line, " fallback_mmap=", totals.unit.fallback_mmap);
  field(&line, " huge_alloc=", totals.unit.huge_alloc);
  field(&line, " huge_fail=", totals.unit.huge_fail);
  report_end(&line);
}

/* A destructor rather than atexit(), which may allocate and would cost every program a call. */
__attribute__((destructor)) static void at_exit(void) {
  if (option_value(SS_OS_STATS)) print_os_stats();
}
