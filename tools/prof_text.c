/* prof_text.c - profiles as people read them, and as lines for flame graphs. */
#include <stdlib.h>

#include "prof.h"
#include "stats.h"

enum { NAME_ROOM = 400 };

static int by_bytes(const void *a, const void *b) {
  double left = ((const struct row *)a)->bytes, right = ((const struct row *)b)->bytes;
  return left < right ? 1 : left > right ? -1 : 0;
}

bool prof_rows(struct report *report) {
  const struct places *places = report->places;
  bool allocated = report->order->view == VIEW_ALLOCATED;
  report->rows = calloc(places->count + 1, sizeof *report->rows);
  if (report->rows == NULL) return false;
  for (size_t i = 0; i < places->count; i++) {
    const double *values = places->places[i].values;
    double bytes = values[allocated ? ALLOCATED_BYTES : LIVE_BYTES];
    double blocks = values[allocated ? ALLOCATED_BLOCKS : LIVE_BLOCKS];
    if (bytes <= 0) continue;
    report->rows[report->count++] =
        (struct row){.place = &places->places[i], .bytes = bytes, .blocks = blocks};
    report->sum += bytes;
  }
  qsort(report->rows, report->count, sizeof *report->rows, by_bytes);
  if (report->order->view == VIEW_LEAKS) prof_leaks(report);
  return true;
}

/* --- as a table ---------------------------------------------------------------------------------------- */

char *prof_age(uint64_t ms, char text[32]) {
  uint64_t seconds = ms / 1000;
  if (seconds < 120) snprintf(text, 32, "%llu s", (unsigned long long)seconds);
  else if (seconds < 7200) snprintf(text, 32, "%llu min", (unsigned long long)seconds / 60);
  else snprintf(text, 32, "%llu h", (unsigned long long)seconds / 3600);
  return text;
}

static void print_row(const struct report *report, const struct row *row, FILE *out) {
  char bytes[16], age[32], name[NAME_ROOM];
  const struct place *place = row->place;
  bool allocated = report->order->view == VIEW_ALLOCATED;
  uint64_t samples = allocated ? place->samples.allocated : place->samples.live;
  fprintf(out, "\n%10s %5.1f%%  about %.0f blocks, %llu samples", stats_bytes(row->bytes, bytes),
          report->sum > 0 ? 100 * row->bytes / report->sum : 0, row->blocks,
          (unsigned long long)samples);
  if (report->order->view == VIEW_LEAKS) prof_leak_ages(report, row, out);
  else if (!allocated) fprintf(out, ", the oldest %s", prof_age(place->samples.oldest_ms, age));
  fprintf(out, "\n");
  for (unsigned i = 0; i < place->depth; i++)
    fprintf(out, "      %s\n", frame_text(place->frames[i], false, name, sizeof name));
  if (place->depth == 0) fprintf(out, "      (nobody knows the caller)\n");
}

void prof_table(const struct report *report, FILE *out) {
  fputs(report->head, out);
  for (size_t i = 0; i < report->count && i < (size_t)report->order->sites; i++)
    print_row(report, &report->rows[i], out);
}

/* --- as lines for flame graphs -------------------------------------------------------------------------- */

void prof_folded(const struct report *report, FILE *out) {
  char name[NAME_ROOM];
  for (size_t i = 0; i < report->count; i++) {
    const struct place *place = report->rows[i].place;
    if (report->order->view == VIEW_LEAKS && !report->rows[i].suspect) continue;
    for (unsigned at = place->depth; at-- > 0;) {
      frame_text(place->frames[at], true, name, sizeof name);
      for (char *c = name; *c != 0; c++)
        if (*c == ';') *c = ':';
      fprintf(out, "%s%s", name, at > 0 ? ";" : "");
    }
    fprintf(out, "%s %.0f\n", place->depth == 0 ? "(unknown)" : "", report->rows[i].bytes);
  }
}
