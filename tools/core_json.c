/* core_json.c - hakmem core --format=json: one line. */
#include "core_end.h"
#include "json_writer.h"
#include "stats.h"

static void put_end(struct json *json, const struct core_report *report) {
  const struct core *core = report->core;
  char name[24], text[512];
  json_open_group(json, "end", '{');
  bool ended = core_was_ended(core);
  json_number(json, "signal", ended ? (uint64_t)core->signal : 0);
  if (ended) json_text(json, "name", core_signal_name(core->signal, name));
  json_text(json, "what", core_code_text(core));
  if (core_has_address(core)) json_number(json, "address", core->address);
  if (core->thread_count > 0) json_number(json, "thread", (uint64_t)core->threads[0].number);
  json_open_group(json, "calls", '[');
  for (unsigned i = 0; i < report->call_count; i++)
    for (unsigned nth = 0;
         core_place_text(report, report->calls[i], nth, text, sizeof text) != NULL; nth++)
      json_text(json, NULL, text);
  json_close_group(json, ']');
  json_open_group(json, "said", '[');
  for (unsigned i = 0; i < report->said.count; i++) json_text(json, NULL, report->said.lines[i]);
  json_close_group(json, ']');
  json_close_group(json, '}');
}

static void put_threads(struct json *json, const struct core_report *report) {
  const struct core *core = report->core;
  char text[512];
  json_open_group(json, "threads", '[');
  for (size_t i = 0; i < core->thread_count; i++) {
    json_open_group(json, NULL, '{');
    json_number(json, "thread", (uint64_t)core->threads[i].number);
    json_text(json, "at", core_place_text(report, core->threads[i].pc, 0, text, sizeof text));
    json_close_group(json, '}');
  }
  json_close_group(json, ']');
}

static void put_points(struct json *json, const struct core_report *report) {
  json_open_group(json, "addresses", '[');
  for (unsigned i = 0; i < report->point_count; i++) {
    const struct core_point *point = &report->points[i];
    json_open_group(json, NULL, '{');
    if (point->of != NULL) json_text(json, "register", point->of);
    json_start(json, "where");
    json->comma = false;
    where_json(&point->where, report->reader, report->symbols, json);
    json_close_group(json, '}');
  }
  json_close_group(json, ']');
}

static void put_places(struct json *json, const struct report *report) {
  char text[512];
  json_open_group(json, "places", '[');
  for (size_t i = 0; i < report->count && (long)i < report->order->sites; i++) {
    const struct row *row = &report->rows[i];
    json_open_group(json, NULL, '{');
    json_bytes(json, "bytes", row->bytes);
    json_bytes(json, "blocks", row->blocks);
    json_open_group(json, "calls", '[');
    for (unsigned at = 0; at < row->place->depth; at++)
      json_text(json, NULL, frame_text(row->place->frames[at], false, text, sizeof text));
    json_close_group(json, ']');
    json_close_group(json, '}');
  }
  json_close_group(json, ']');
}

static void put_equation(struct json *json, const struct snapshot *snapshot) {
  struct part parts[PARTS];
  stats_parts(snapshot, parts);
  json_open_group(json, "equation", '{');
  json_number(json, "resident", snapshot->resident);
  for (int i = 0; i < PARTS; i++) json_bytes(json, parts[i].name, parts[i].bytes);
  json_close_group(json, '}');
  json_boolean(json, "partial", snapshot->partial);
}

static void put_files(struct json *json, const struct core *core) {
  json_open_group(json, "files", '[');
  for (size_t i = 0; i < core->file_count; i++) {
    const struct core_file *file = &core->files[i];
    if (!file->tried) continue;
    json_open_group(json, NULL, '{');
    json_text(json, "path", file->path);
    json_boolean(json, "found", file->fd >= 0);
    json_boolean(json, "checked", file->checked);
    json_close_group(json, '}');
  }
  json_close_group(json, ']');
}

void core_print_json(const struct core_report *report, FILE *out) {
  struct json json = {.out = out};
  const struct core *core = report->core;
  json_open_group(&json, NULL, '{');
  json_number(&json, "version", 1);
  json_number(&json, "pid", (uint64_t)core->pid);
  json_text(&json, "program", core->program);
  json_text(&json, "called", core->arguments);
  json_number(&json, "missing", core->missing);
  put_end(&json, report);
  put_threads(&json, report);
  put_points(&json, report);
  if (report->snapshot != NULL) put_equation(&json, report->snapshot);
  if (report->places != NULL) put_places(&json, report->places);
  put_files(&json, core);
  json_close_group(&json, '}');
  fputc('\n', out);
}
