/* screen.c - see screen.h. 80 columns and 24 lines are enough for all of it; more of them show more rows. */
#define _GNU_SOURCE
#include "screen.h"

#include <stdarg.h>
#include <string.h>

#include "stats.h"

enum { CALLS = 5, LEVELS = 8 };

static const char *const call_names[CALLS] = {"mmap", "munmap", "madvise", "mremap", "mprotect"};

void history_add(struct history *history, const struct snapshot *snapshot, double seconds) {
  struct part parts[PARTS];
  if (history->count == HISTORY) {
    history->count--;
    memmove(history->seconds, history->seconds + 1,
            sizeof history->seconds - sizeof history->seconds[0]);
    memmove(history->parts, history->parts + 1, sizeof history->parts - sizeof history->parts[0]);
    memmove(history->calls, history->calls + 1, sizeof history->calls - sizeof history->calls[0]);
  }
  unsigned at = history->count++;
  stats_parts(snapshot, parts);
  history->seconds[at] = seconds;
  for (int i = 0; i < PARTS; i++) history->parts[at][i] = parts[i].bytes;
  history->parts[at][PARTS] = (double)snapshot->resident;
  const uint64_t calls[CALLS] = {snapshot->os_mmap, snapshot->os_munmap, snapshot->os_madvise,
                                 snapshot->os_mremap, snapshot->os_mprotect};
  memcpy(history->calls[at], calls, sizeof calls);
}

__attribute__((format(printf, 3, 4))) static struct line *add(struct screen *screen, bool strong,
                                                              const char *format, ...) {
  static struct line beyond;
  struct line *line = screen->count < LINES_MOST ? &screen->lines[screen->count++] : &beyond;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line->text, sizeof line->text, format, arguments);
  va_end(arguments);
  line->strong = strong;
  line->chosen = false;
  line->level_count = 0;
  return line;
}

/* Between the lowest and the highest value that was seen; a flat line lies at the bottom. */
static void curve(struct line *line, const double *values, unsigned count, unsigned room) {
  if (count > room) {
    values += count - room;
    count = room;
  }
  double low = count > 0 ? values[0] : 0, high = low;
  for (unsigned i = 1; i < count; i++) {
    if (values[i] < low) low = values[i];
    if (values[i] > high) high = values[i];
  }
  for (unsigned i = 0; i < count; i++) {
    double level = high > low ? (values[i] - low) / (high - low) * (LEVELS - 1) + 0.5 : 0;
    line->levels[i] = (unsigned char)level;
  }
  line->level_count = count;
}

static void add_parts(struct screen *screen, const struct snapshot *snapshot,
                      const struct history *history, unsigned columns) {
  struct part parts[PARTS];
  char bytes[16], change[24];
  stats_parts(snapshot, parts);
  add(screen, true, "%-15s %10s %6s %12s", "", "resident", "share", "a second");
  for (int i = PARTS; i >= 0; i--) {
    /* The sum first, then its parts in their order. */
    int part = i == PARTS ? PARTS : PARTS - 1 - i;
    double now = part == PARTS ? (double)snapshot->resident : parts[part].bytes;
    double values[HISTORY], rate = 0;
    for (unsigned k = 0; k < history->count; k++) values[k] = history->parts[k][part];
    if (history->count > 1) {
      unsigned last = history->count - 1;
      double seconds = history->seconds[last] - history->seconds[last - 1];
      if (seconds > 0) rate = (values[last] - values[last - 1]) / seconds;
    }
    snprintf(change, sizeof change, "%s%s", rate > 0 ? "+" : "", stats_bytes(rate, bytes));
    double share = snapshot->resident > 0 ? 100 * now / (double)snapshot->resident : 0;
    struct line *line = add(screen, part == PARTS, "%-2s%-13s %10s %5.1f%% %12s  ",
                            part == PARTS ? ""
                            : part == 0   ? "="
                                          : "+",
                            part == PARTS ? "resident" : parts[part].text, stats_bytes(now, bytes),
                            share, rate != 0 ? change : "");
    unsigned used = (unsigned)strlen(line->text);
    curve(line, values, history->count, columns > used ? columns - used : 0);
  }
}

static void add_classes(struct screen *screen, const struct snapshot *snapshot, unsigned rows) {
  unsigned classes[CLASSES_MOST], count = stats_classes_by_waste(snapshot, classes);
  char text[5][16];
  add(screen, true, "%8s %11s %11s %13s %11s %11s", "size", "live", "caches", "fragmentation",
      "slack", "waste");
  for (unsigned i = 0; i < count && i < rows; i++) {
    const struct class_figures *figures = &snapshot->classes[classes[i]];
    add(screen, false, "%8u %11s %11s %13s %11s %11s", figures->size,
        stats_bytes(figures->live, text[0]), stats_bytes(figures->caches, text[1]),
        stats_bytes(figures->fragmentation, text[2]), stats_bytes(figures->slack, text[3]),
        stats_bytes(stats_waste(figures), text[4]));
  }
}

static void add_heaps(struct screen *screen, const struct snapshot *snapshot, unsigned rows) {
  char text[5][16];
  add(screen, true, "%-22s %11s %10s %10s %10s %10s", "thread", "slabs", "bins", "unsent", "inbox",
      "large");
  for (size_t i = 0; i < snapshot->heap_count && i < rows; i++) {
    const struct heap_figures *heap = &snapshot->heaps[i];
    char thread[40];
    add(screen, false, "%-22.22s %11s %10s %10s %10s %10s", stats_thread(heap, thread),
        stats_bytes((double)heap->slab_bytes, text[0]), stats_bytes((double)heap->bins, text[1]),
        stats_bytes((double)heap->outgoing, text[2]), stats_bytes((double)heap->inbox, text[3]),
        stats_bytes((double)heap->cached, text[4]));
  }
}

static void add_sites(struct screen *screen, const struct top_sites *sites, unsigned rows,
                      unsigned columns) {
  enum { BEFORE = 21 };
  int room = columns > BEFORE ? (int)(columns - BEFORE) : 0;
  char text[16];
  add(screen, true, "%10s %8s  %s", "live", "samples", "allocated in");
  for (unsigned i = 0; i < sites->count && i < rows; i++)
    add(screen, false, "%10s %8llu  %.*s", stats_bytes(sites->sites[i].bytes, text),
        (unsigned long long)sites->sites[i].samples, room, sites->sites[i].text);
}

static void add_calls(struct screen *screen, const struct history *history) {
  char text[COLUMNS_MOST];
  int length = snprintf(text, sizeof text, "calls a second:");
  unsigned last = history->count - 1;
  double seconds = history->count > 1 ? history->seconds[last] - history->seconds[last - 1] : 0;
  for (int i = 0; i < CALLS && length > 0 && (size_t)length < sizeof text; i++) {
    double rate =
        seconds > 0 ? (double)(history->calls[last][i] - history->calls[last - 1][i]) / seconds : 0;
    length +=
        snprintf(text + length, sizeof text - (size_t)length, " %s %.1f", call_names[i], rate);
  }
  add(screen, false, "%s", text);
}

/* What samples tell of live. */
static void add_sampled(struct screen *screen, const struct sampled *sampled) {
  char asked[16], rounding[16], error[16], peak[16], off[16], age[32];
  add(screen, false, "live = asked %s + rounding %s (+-%s)", stats_bytes(sampled->asked, asked),
      stats_bytes(sampled->rounding, rounding), stats_bytes(sampled->error, error));
  add(screen, false, "peak %s (+-%s) %s ago", stats_bytes(sampled->peak.bytes, peak),
      stats_bytes(sampled->peak.error, off), stats_age(sampled->peak.ms, age));
}

void screen_fill(struct screen *screen, const struct snapshot *snapshot,
                 const struct remote *remote, const struct history *history,
                 const struct top_sites *sites, unsigned rows, unsigned columns) {
  /* Lines that are always there: 1, 8, 1, 1, 1, and two empty ones; with places two more, with samples
   * two. */
  enum { FIXED = 14, FIXED_SITES = 2, FIXED_SAMPLED = 2 };
  unsigned fixed =
      FIXED + (sites->count > 0 ? FIXED_SITES : 0) + (sites->sampled.known ? FIXED_SAMPLED : 0);
  unsigned room = rows > fixed + 3 ? rows - fixed : 3;
  unsigned places = sites->count < room / 3 ? sites->count : room / 3;
  unsigned heaps =
      snapshot->heap_count < room / 3 + 1 ? (unsigned)snapshot->heap_count : room / 3 + 1;
  unsigned taken = places + heaps;
  screen->count = 0;
  add(screen, true, "hakmem top: %s (%d), hakmem %s, %zu thread%s and %zu ended%s", remote->program,
      remote->pid, remote->layout.release, snapshot->heaps_active,
      stats_plural(snapshot->heaps_active), snapshot->heaps_parked,
      snapshot->counted   ? ", counted by itself"
      : snapshot->partial ? ", in motion"
                          : "");
  add_parts(screen, snapshot, history, columns < COLUMNS_MOST ? columns : COLUMNS_MOST - 1);
  if (sites->sampled.known) add_sampled(screen, &sites->sampled);
  add_calls(screen, history);
  add(screen, false, "%s", "");
  add_classes(screen, snapshot, room > taken ? room - taken : 1);
  if (places > 0) {
    add(screen, false, "%s", "");
    add_sites(screen, sites, places, columns);
  }
  add(screen, false, "%s", "");
  add_heaps(screen, snapshot, heaps);
}
