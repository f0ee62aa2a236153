/* prof_group_text.c - groups as a table, and as JSON. */
#include <math.h>
#include <string.h>

#include "json_writer.h"
#include "prof_group.h"
#include "stats.h"

enum { NAME_ROOM = 1024 };

static const char *const views[] = {"live", "allocated", "growth", "leaks", "peak"};

/* --- as a table ------------------------------------------------------------------------------------------ */

static void print_line_of(const struct report *report, const struct group *group, FILE *out) {
  char bytes[16];
  fprintf(out, "%10s  %5.1f%%  %12.0f  %8llu  %s\n", stats_bytes(group->bytes, bytes),
          report->sum > 0 ? 100 * group->bytes / report->sum : 0, group->blocks,
          (unsigned long long)group->samples, group->name);
}

void prof_group_table(const struct report *report, FILE *out) {
  char name[64];
  size_t shown = (size_t)report->order->sites;
  struct group others = {.name = name};
  fprintf(out, "\n     bytes   share  about blocks   samples  %s\n",
          prof_by_noun(report->order->by, 1));
  for (size_t i = 0; i < report->group_count; i++) {
    const struct group *group = &report->groups[i];
    if (i < shown) print_line_of(report, group, out);
    others.bytes += i < shown ? 0 : group->bytes;
    others.blocks += i < shown ? 0 : group->blocks;
    others.samples += i < shown ? 0 : group->samples;
  }
  if (report->group_count <= shown) return;
  snprintf(name, sizeof name, "(%zu more)", report->group_count - shown);
  print_line_of(report, &others, out);
}

/* --- as JSON --------------------------------------------------------------------------------------------- */

static void put_sums(struct json *json, double bytes, double blocks, uint64_t samples) {
  json_bytes(json, "bytes", bytes);
  json_bytes(json, "blocks", fabs(blocks));
  json_number(json, "samples", samples);
}

static void put_place(struct json *json, const struct report *report, const struct row *row) {
  char name[NAME_ROOM];
  const struct place *place = row->place;
  json_open_group(json, NULL, '{');
  json_open_group(json, "calls", '[');
  for (unsigned i = 0; i < place->depth; i++)
    json_text(json, NULL, frame_text(place->frames[i], false, name, sizeof name));
  json_close_group(json, ']');
  put_sums(json, row->bytes, row->blocks,
           report->order->view == VIEW_ALLOCATED ? place->samples.allocated : place->samples.live);
  json_close_group(json, '}');
}

static void put_group(struct json *json, enum prof_by by, const struct group *group) {
  json_open_group(json, NULL, '{');
  json_text(json, "name", group->name);
  if (by == BY_SIZE || by == BY_AGE) {
    json_number(json, by == BY_SIZE ? "least" : "least_ms", group->least);
    if (group->most != UINT64_MAX)
      json_number(json, by == BY_SIZE ? "most" : "below_ms", group->most);
  }
  put_sums(json, group->bytes, group->blocks, group->samples);
  json_close_group(json, '}');
}

void prof_group_json(const struct report *report, FILE *out) {
  struct json json = {.out = out};
  json_open_group(&json, NULL, '{');
  json_number(&json, "version", 1);
  json_number(&json, "pid", (uint64_t)report->pid);
  json_text(&json, "program", report->program);
  json_text(&json, "view", views[report->order->view]);
  json_text(&json, "by", prof_by_name(report->order->by));
  json_number(&json, "live", report->live);
  json_bytes(&json, "covered", report->covered);
  json_bytes(&json, "bytes", report->sum);
  if (report->order->view == VIEW_PEAK && report->sum > 0) { /* without a sample nobody knows */
    json_bytes(&json, "peak", report->peak.bytes);
    json_bytes(&json, "peak_error", report->peak.error);
    json_number(&json, "peak_ms_ago", report->peak.ms);
  }
  json_open_group(&json, "groups", '[');
  if (report->order->by == BY_STACKS)
    for (size_t i = 0; i < report->count; i++) put_place(&json, report, &report->rows[i]);
  for (size_t i = 0; i < report->group_count; i++)
    put_group(&json, report->order->by, &report->groups[i]);
  json_close_group(&json, ']');
  json_close_group(&json, '}');
  fputc('\n', out);
}
