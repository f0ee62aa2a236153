/* summary.c - HAKMEM_STATS=text: ten lines about one process (described in hakmem(5)). */
#include "api/statistics.h"
#include "hakmem.h"
#include "observe/sheet.h"
#include "policy/options.h"

/* Where the figures of each line begin. */
enum { LABEL_WIDTH = 11 };

static void start_line(struct report *line, const char *label) {
  report_start_bare(line);
  report_text(line, "  ");
  report_text(line, label);
  for (size_t width = strlen(label); width < LABEL_WIDTH; width++) report_text(line, " ");
}

static void put_number(struct report *line, uint64_t value, const char *what) {
  report_number(line, value);
  report_text(line, what);
}

/* 12.3 MiB; below 1 KiB: 12 B. */
static void put_bytes(struct report *line, uint64_t bytes, const char *what) {
  static const char units[][5] = {" B", " KiB", " MiB", " GiB", " TiB"};
  unsigned unit = 0;
  while (unit + 1 < sizeof units / sizeof units[0] && bytes >> (10 * unit) >= KIB) unit++;
  uint64_t tenths = (bytes >> (10 * unit)) * 10;
  if (unit > 0) {
    uint64_t below = bytes >> (10 * (unit - 1)) & (KIB - 1); /* 1,024th of the unit */
    tenths += below * 10 / KIB;
  }
  report_number(line, tenths / 10);
  if (unit > 0) {
    report_text(line, ".");
    report_number(line, tenths % 10);
  }
  report_text(line, units[unit]);
  report_text(line, what);
}

static void put_process(struct sheet *sheet, bool at_exit) {
  static const char profiles[][12] = {"speed", "balanced", "lean"};
  char program[64];
  struct report line;
  os_program_name(program, sizeof program);
  report_start_bare(&line); /* it is no message: these begin with "hakmem: " */
  report_text(&line, "[STATS] ");
  report_foreign_text(&line, program, strlen(program));
  report_text(&line, " (pid ");
  report_number(&line, (uint64_t)os_process());
  report_text(&line, at_exit ? ") at exit" : ") at a signal");
  report_text(&line, ", hakmem " HAKMEM_VERSION_STRING " " HAK_VARIANT_NAME ", profile ");
  report_text(&line, profiles[option_value(PROFILE)]);
  sheet_end_line(sheet, &line);
}

/* A line with one figure; 0 where it cannot be read. */
static void put_resident(struct sheet *sheet, const char *label, uint64_t bytes, const char *what) {
  struct report line;
  start_line(&line, label);
  if (bytes == 0) report_text(&line, "not known");
  else put_bytes(&line, bytes, what);
  sheet_end_line(sheet, &line);
}

/* The peak, if any block was sampled. Samples know what was asked for, without what rounding adds. */
static void put_peak(struct report *line, const struct totals *totals) {
  if (totals->peak_samples == 0) return;
  report_text(line, "; at the peak, ");
  put_number(line, totals->peak_ms / 1000, " s ago, ");
  put_bytes(line, totals->peak, " asked for (by ");
  put_number(line, totals->peak_samples, totals->peak_samples == 1 ? " sample)" : " samples)");
}

/* Where the memory is. Without `complete` a lock was held that a signal handler does not wait for. */
static void put_memory(struct sheet *sheet, const struct totals *totals, bool complete) {
  static const char *const labels[] = {"live", "kept", "mapped", "given back"};
  for (unsigned i = 0; i < sizeof labels / sizeof labels[0]; i++) {
    struct report line;
    start_line(&line, labels[i]);
    if (!complete) {
      report_text(&line, "not known at this moment: memory was being taken or given back");
    } else if (i == 0) {
      put_bytes(&line, totals->in_use, " in blocks of the program");
      put_peak(&line, totals);
    } else if (i == 1) {
      put_bytes(&line, totals->in_bins, " of free blocks in threads, ");
      put_bytes(&line, totals->pinned, " beside live ones, ");
      put_bytes(&line, totals->cached, " empty");
    } else if (i == 2) {
      put_bytes(&line, totals->unit.bytes_mapped, " of addresses, and ");
      put_bytes(&line, totals->metadata_bytes, " of descriptors");
    } else {
      put_bytes(&line, totals->given, " within what is mapped");
    }
    sheet_end_line(sheet, &line);
  }
}

static void put_calls(struct sheet *sheet) {
  uint64_t taken = 0, freed = 0, fast = 0;
  struct report line;
  for (unsigned c = 0; c < COUNTED_CLASSES; c++) {
    struct class_totals totals;
    totals_of_class(c, &totals);
    taken += totals.alloc;
    freed += totals.free;
    fast += totals.of[COUNT_FAST];
  }
  start_line(&line, "calls");
  put_number(&line, taken, " blocks handed out, ");
  put_number(&line, fast, " of them from the thread's own list, ");
  put_number(&line, freed, " freed");
  sheet_end_line(sheet, &line);
}

void statistics_put_summary(struct sheet *sheet, const struct totals *totals, bool complete,
                            bool at_exit) {
  struct report line;
  /* The kernel keeps its peak up to date now and then, not at each page. */
  char *unused = sheet->text + sheet->length;
  uint64_t resident = os_resident_bytes(),
           peak = os_peak_resident_bytes(unused, sheet->room - sheet->length);
  if (peak != 0 && peak < resident) peak = resident;
  put_process(sheet, at_exit);
  put_resident(sheet, "peak", peak, " resident, of the whole process");
  put_resident(sheet, "resident", resident, " of the whole process");
  put_memory(sheet, totals, complete);
  put_calls(sheet);
  start_line(&line, "heaps");
  put_number(&line, totals->heaps_active, " with a thread, ");
  put_number(&line, totals->heaps_parked, " of threads that have ended");
  sheet_end_line(sheet, &line);
  start_line(&line, "system");
  put_number(&line, counters_read(&os_counts.mmap), " mmap, ");
  put_number(&line, counters_read(&os_counts.munmap), " munmap, ");
  put_number(&line, counters_read(&os_counts.madvise), " madvise, ");
  put_number(&line, counters_read(&os_counts.mprotect), " mprotect, ");
  put_number(&line, counters_read(&os_counts.mremap), " mremap; ");
  put_number(&line, counters_read(&os_counts.failed), " failed");
  sheet_end_line(sheet, &line);
}
