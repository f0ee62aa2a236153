/* prof_leaks.c - which places are suspected of leaking.
 *
 * The time since the first sample has four quarters, and each left some of its blocks alive. A leak leaves about as much in each.
 * What was filled at start is all of the first one; what is freed after a while is of the last one or two, and the older the fewer.
 * So a place is suspected where at least three quarters left something, and the leanest left at least a quarter of
 * what the fullest left, the first one aside, in which a program starts. Few samples are uneven by chance: the leanest
 * has one more for nothing.
 */
#include <stdlib.h>

#include "prof.h"
#include "stats.h"

enum { QUARTERS_LEAST = 3, SHARE = 4 };

static void judge(struct row *row) {
  const struct site_samples *samples = &row->place->samples;
  double leanest = samples->born[0], fullest = 0;
  for (int i = 0; i < QUARTERS; i++) {
    if (samples->born[i] > 0) row->quarters++;
    if (samples->born[i] < leanest) leanest = samples->born[i];
    if (i > 0 && samples->born[i] > fullest) fullest = samples->born[i];
  }
  row->suspect =
      row->quarters >= QUARTERS_LEAST && (leanest + samples->heaviest) * SHARE >= fullest;
}

static int by_suspicion(const void *a, const void *b) {
  const struct row *left = a, *right = b;
  if (left->suspect != right->suspect) return left->suspect ? -1 : 1;
  if (left->quarters != right->quarters) return left->quarters > right->quarters ? -1 : 1;
  return left->bytes < right->bytes ? 1 : left->bytes > right->bytes ? -1 : 0;
}

void prof_leaks(struct report *report) {
  for (size_t i = 0; i < report->count; i++) {
    judge(&report->rows[i]);
    if (report->rows[i].suspect) report->suspects++;
  }
  qsort(report->rows, report->count, sizeof *report->rows, by_suspicion);
}

void prof_leak_ages(const struct report *report, const struct row *row, FILE *out) {
  char youngest[32], oldest[32], bytes[16];
  const struct site_samples *samples = &row->place->samples;
  double minutes = (double)report->places->age_ms / 60000, later = 0;
  fprintf(out, ", %s to %s old", stats_age(samples->youngest_ms, youngest),
          stats_age(samples->oldest_ms, oldest));
  for (int i = 1; i < QUARTERS; i++) later += samples->born[i];
  if (row->suspect && minutes > 0)
    fprintf(out, ", LEAK? +%s a minute",
            stats_bytes(later / (minutes * (QUARTERS - 1) / QUARTERS), bytes));
  fprintf(out, "\n           of each quarter of %s:", stats_age(report->places->age_ms, oldest));
  for (int i = 0; i < QUARTERS; i++)
    fprintf(out, "%s %s", i > 0 ? "," : "", stats_bytes(samples->born[i], bytes));
}
