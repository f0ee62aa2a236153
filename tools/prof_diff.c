/* prof_diff.c - hakmem prof diff: what one saved profile has more or less than another. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli.h"
#include "pprof.h"
#include "prof.h"
#include "remote.h"
#include "stats.h"

static void write_origin(const char *what, const struct places *places, FILE *out) {
  char line[512], when[40] = "", rate[16] = "";
  time_t seconds = (time_t)(places->time_ns / 1000000000);
  struct tm local;
  if (localtime_r(&seconds, &local) != NULL)
    strftime(when, sizeof when, ", %Y-%m-%d %H:%M:%S", &local);
  if (places->rate > 0) stats_bytes((double)places->rate, rate);
  snprintf(line, sizeof line, "%s: %s%s%s%s", what,
           places->comment_count > 0 ? places->comments[0] : "?", when,
           rate[0] != 0 ? ", one sample in " : "", rate);
  /* A file may hold anything. */
  make_printable(line, sizeof line);
  fprintf(out, "%s\n", line);
}

static void write_head(const struct report *report, const struct places *before, FILE *out) {
  char sum[16], now[16], was[16];
  double earlier = 0;
  int value = report->order->view == VIEW_ALLOCATED ? ALLOCATED_BYTES : LIVE_BYTES;
  for (size_t i = 0; i < before->count; i++) earlier += before->places[i].values[value];
  fprintf(out, "%s%s %s: %s instead of %s, at %zu place%s\n", report->sum < 0 ? "" : "+",
          stats_bytes(report->sum, sum), value == ALLOCATED_BYTES ? "allocated" : "live",
          stats_bytes(earlier + report->sum, now), stats_bytes(earlier, was), report->count,
          stats_plural(report->count));
  write_origin("before", before, out);
  write_origin("after", report->places, out);
}

static int compare(const struct prof_order *order, struct places *before, struct places *after) {
  struct report report = {.order = order, .places = after, .difference = true};
  char *head = NULL;
  size_t length;
  int code = 1;
  places_merge(before);
  places_merge(after);
  FILE *text = open_memstream(&head, &length);
  if (text == NULL || !places_compare(after, before) || !prof_rows(&report)) {
    complain("out of memory");
  } else {
    write_head(&report, before, text);
    fflush(text);
    report.head = head;
    code = prof_write(&report);
  }
  if (text != NULL) fclose(text);
  free(head);
  free(report.rows);
  return code;
}

int prof_diff(const struct prof_order *order, const char *before, const char *after) {
  struct places *first = pprof_read(before);
  struct places *second = first != NULL ? pprof_read(after) : NULL;
  int code = second != NULL ? compare(order, first, second) : 1;
  places_free(second);
  places_free(first);
  return code;
}
