/* json.c - HAKMEM_STATS=json: every figure there is, in one line (described in hakmem(5)). */
#include "observe/json.h"

#include "api/statistics.h"
#include "hakmem.h"
#include "observe/sheet.h"
#include "policy/options.h"

static void put_figures(struct json *json, const struct figure *figures, unsigned count) {
  for (unsigned i = 0; i < count; i++) json_number(json, figures[i].name, figures[i].value);
}

/* [SS_OS_STATS], and what the line has no room for. */
static unsigned get_os(const struct totals *totals, struct figure figures[FIGURES_MOST]) {
  unsigned count = statistics_os(totals, figures);
  figures[count++] = (struct figure){"munmap", counters_read(&os_counts.munmap)};
  figures[count++] = (struct figure){"mprotect", counters_read(&os_counts.mprotect)};
  figures[count++] = (struct figure){"mremap", counters_read(&os_counts.mremap)};
  figures[count++] = (struct figure){"failed", counters_read(&os_counts.failed)};
  return count;
}

static void put_group(struct json *json, const char *name, const struct figure *figures,
                      unsigned count) {
  json_open(json, name, '{');
  put_figures(json, figures, count);
  json_close(json, '}');
}

static void put_totals(struct json *json, const struct totals *totals) {
  json_open(json, "totals", '{');
  json_number(json, "superslabs_live", totals->superslab.live);
  json_number(json, "superslabs_peak", totals->superslab.peak);
  json_number(json, "superslabs_warm", totals->unit.units_warm);
  json_number(json, "huge_live", totals->superslab.huge_live);
  json_number(json, "bytes_mapped", totals->unit.bytes_mapped);
  json_number(json, "bytes_slab", totals->superslab.slab_bytes);
  json_number(json, "bytes_large", totals->superslab.large_bytes);
  json_number(json, "bytes_huge", totals->superslab.huge_bytes);
  json_number(json, "bytes_in_use", totals->in_use);
  json_number(json, "bytes_in_bins", totals->in_bins);
  json_number(json, "bytes_metadata", totals->metadata_bytes);
  json_close(json, '}');
}

static void put_heaps(struct json *json, const struct totals *totals) {
  json_open(json, "heaps", '{');
  json_number(json, "active", totals->heaps_active);
  json_number(json, "parked", totals->heaps_parked);
  json_close(json, '}');
}

static void put_nodes(struct json *json, const struct totals *totals, bool complete) {
  json_open(json, "numa", '{');
  json_number(json, "nodes", node_count());
  if (complete) {
    json_open(json, "superslabs", '[');
    for (unsigned node = 0; node < node_end(); node++)
      json_number(json, NULL, totals->superslab.live_of[node]);
    json_close(json, ']');
  }
  json_close(json, '}');
}

static void put_class(struct json *json, const char *name, unsigned counted_class) {
  struct class_totals totals;
  struct figure warm[FIGURES_MOST], front[FIGURES_MOST], more[FIGURES_MOST];
  totals_of_class(counted_class, &totals);
  unsigned warm_count = statistics_warm_pool(&totals, warm);
  unsigned front_count = statistics_front(&totals, front);
  bool small = counted_class < COUNTED_LARGE;
  if (small && !statistics_any(warm, warm_count) && !statistics_any(front, front_count)) return;
  json_open(json, name, '{');
  if (small) {
    json_number(json, "class", counted_class);
    json_number(json, "size", totals.size);
  }
  put_figures(json, front, front_count);
  if (small) put_figures(json, more, statistics_heap(&totals, more));
  if (small) json_number(json, "free_remote", totals.of[COUNT_FREE_REMOTE]);
  put_group(json, "warm_pool", warm, warm_count);
  if (HAK_OBSERVE && small) {
    put_group(json, "refill", more, statistics_refill(&totals, more));
    put_group(json, "free_pipeline", more, statistics_free(&totals, more));
  }
  json_close(json, '}');
}

/* Who it is about. */
static void put_process(struct json *json, bool at_exit) {
  static const char profiles[][12] = {"speed", "balanced", "lean"};
  char program[64];
  os_program_name(program, sizeof program);
  json_number(json, "pid", (uint64_t)os_process());
  json_foreign_text(json, "program", program);
  json_text(json, "profile", profiles[option_value(PROFILE)]);
  json_text(json, "at", at_exit ? "exit" : "signal");
}

void statistics_put_json(struct sheet *sheet, const struct totals *totals, bool complete,
                         bool at_exit) {
  struct figure figures[FIGURES_MOST];
  struct json json = {.sheet = sheet};
  json_open(&json, NULL, '{');
  json_number(&json, "version", 1);
  json_text(&json, "hakmem", HAKMEM_VERSION_STRING);
  json_text(&json, "variant", HAK_VARIANT_NAME);
  put_process(&json, at_exit);
  json_bool(&json, "partial", !complete);
  put_group(&json, "os", figures, get_os(totals, figures));
  if (complete) put_totals(&json, totals);
  put_heaps(&json, totals);
  put_nodes(&json, totals, complete);
  if (complete) put_group(&json, "memory", figures, statistics_memory(totals, figures));
  json_open(&json, "classes", '[');
  for (unsigned c = 0; c < COUNTED_LARGE; c++) put_class(&json, NULL, c);
  json_close(&json, ']');
  put_class(&json, "large", COUNTED_LARGE);
  put_class(&json, "huge", COUNTED_HUGE);
  json_close(&json, '}');
  json_end(&json);
}
