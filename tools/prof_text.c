/* prof_text.c - profiles as people read them, and as lines for flame graphs. */
#include <math.h>
#include <stdlib.h>

#include "prof.h"
#include "prof_group.h"
#include "stats.h"

enum { NAME_ROOM = 400 };

static int by_bytes(const void *a, const void *b) {
  double left = fabs(((const struct row *)a)->bytes), right = fabs(((const struct row *)b)->bytes);
  return left < right ? 1 : left > right ? -1 : 0;
}

bool prof_rows(struct report *report) {
  const struct places *places = report->places;
  bool allocated = report->order->view == VIEW_ALLOCATED;
  int bytes = allocated ? ALLOCATED_BYTES : LIVE_BYTES;
  int blocks = allocated ? ALLOCATED_BLOCKS : LIVE_BLOCKS;
  report->rows = calloc(places->count + 1, sizeof *report->rows);
  if (report->rows == NULL) return false;
  for (size_t i = 0; i < places->count; i++) {
    const struct place *place = &places->places[i];
    struct row *row = &report->rows[report->count];
    row->place = place;
    row->before = place->before[bytes];
    row->bytes = place->values[bytes] - place->before[bytes];
    row->blocks = place->values[blocks] - place->before[blocks];
    if (report->order->view == VIEW_GROWTH && row->bytes < 0) report->less -= row->bytes;
    if (row->bytes == 0 || (row->bytes < 0 && !report->difference)) continue;
    report->count++;
    report->sum += row->bytes;
  }
  qsort(report->rows, report->count, sizeof *report->rows, by_bytes);
  if (report->order->view == VIEW_LEAKS) prof_leaks(report);
  return true;
}

/* --- as a table ---------------------------------------------------------------------------------------- */

static void print_figures(const struct report *report, const struct row *row, FILE *out) {
  char bytes[16], age[32];
  const struct place *place = row->place;
  bool allocated = report->order->view == VIEW_ALLOCATED;
  uint64_t samples = allocated ? place->samples.allocated : place->samples.live;
  /* What grows may be fewer blocks that are larger. */
  unsigned long long blocks = (unsigned long long)llround(fabs(row->blocks));
  fprintf(out, "\n%10s %5.1f%%  about %llu %sblock%s, %llu sample%s",
          stats_bytes(row->bytes, bytes), report->sum > 0 ? 100 * row->bytes / report->sum : 0,
          blocks, row->blocks < 0 && blocks > 0 ? "fewer " : "", stats_plural(blocks),
          (unsigned long long)samples, stats_plural(samples));
  if (report->order->view == VIEW_LEAKS) prof_leak_ages(report, row, out);
  else if (!allocated && report->order->view != VIEW_PEAK)
    fprintf(out, ", the oldest %s", stats_age(place->samples.oldest_ms, age));
  fprintf(out, "\n");
}

static void print_difference(const struct row *row, FILE *out) {
  char more[17] = "+", now[16], was[16];
  stats_bytes(row->bytes, more + 1);
  fprintf(out, "\n%11s  about %+lld block%s, %s instead of %s\n", more + (row->bytes < 0),
          llround(row->blocks), stats_plural((uint64_t)llabs(llround(row->blocks))),
          stats_bytes(row->before + row->bytes, now), stats_bytes(row->before, was));
}

static void print_row(const struct report *report, const struct row *row, FILE *out) {
  char name[NAME_ROOM];
  const struct place *place = row->place;
  if (report->difference) print_difference(row, out);
  else print_figures(report, row, out);
  for (unsigned i = 0; i < place->depth; i++)
    fprintf(out, "      %s\n", frame_text(place->frames[i], false, name, sizeof name));
  if (place->depth == 0) fprintf(out, "      (nobody knows the caller)\n");
}

void prof_table(const struct report *report, FILE *out) {
  fputs(report->head, out);
  if (report->order->by != BY_STACKS) {
    prof_group_table(report, out);
    return;
  }
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
    if (place->depth == 0) fprintf(out, "(unknown)");
    if (report->difference) fprintf(out, " %.0f", report->rows[i].before);
    fprintf(out, " %.0f\n", report->rows[i].before + report->rows[i].bytes);
  }
}
