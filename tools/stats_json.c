/* stats_json.c - hakmem stats --format json: one line. What HAKMEM_STATS=json has as well has the same name and means the
 * same (hakmem(5)). */
#include <stdlib.h>
#include <string.h>

#include "json_writer.h"
#include "observe/counters.h"
#include "stats.h"

/* --- options ------------------------------------------------------------------------------------------ */

/* Word number `value` of "a|b|c", or NULL. */
static const char *word(char *words, int32_t value) {
  char *rest = words, *found;
  if (strchr(words, '|') == NULL) return NULL;
  do found = strsep(&rest, "|");
  while (value-- > 0 && rest != NULL);
  return value < 0 ? found : NULL;
}

static void put_option(struct json *json, const struct remote *remote, struct copy row,
                       int32_t value) {
  const struct directory_layout *layout = &remote->layout;
  char name[64] = "", accepted[128] = "";
  size_t length = layout->options.name.bytes, words = layout->options.accepted.bytes;
  if (length >= sizeof name || words >= sizeof accepted ||
      layout->options.name.at + length > row.size || layout->options.accepted.at + words > row.size)
    return;
  memcpy(name, row.bytes + layout->options.name.at, length);
  memcpy(accepted, row.bytes + layout->options.accepted.at, words);
  /* A signal is told by its number, though it may be written as a word. */
  const char *chosen = strstr(accepted, "NUMBER") == NULL ? word(accepted, value) : NULL;
  if (strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") != strlen(name)) return;
  if (chosen != NULL) {
    json_text(json, name, chosen);
  } else {
    json_start(json, name);
    fprintf(json->out, "%d", value);
  }
}

static void put_options(struct json *json, const struct remote *remote) {
  const struct directory_layout *layout = &remote->layout;
  uint32_t stride = layout->options.stride, count = layout->options.count;
  char *rows = calloc(count + 1, (size_t)stride + 1);
  int32_t *values = calloc(count + 1, sizeof *values);
  int32_t profile;
  if (rows != NULL && values != NULL && remote_option(remote, "HAKMEM_PROFILE", &profile) &&
      remote_read(remote, remote->option_values, values, count * sizeof *values) &&
      remote_read(remote, remote->option_table, rows, (size_t)count * stride)) {
    json_open_group(json, "options", '{');
    for (uint32_t i = 0; i < count; i++)
      put_option(json, remote, (struct copy){rows + (size_t)i * stride, stride}, values[i]);
    json_close_group(json, '}');
  }
  free(rows);
  free(values);
}

static void put_profile(struct json *json, const struct remote *remote) {
  static const char *const names[] = {"speed", "balanced", "lean"};
  int32_t value = 0;
  if (remote_option(remote, "HAKMEM_PROFILE", &value) && value >= 0 && value < 3)
    json_text(json, "profile", names[value]);
}

/* --- figures ------------------------------------------------------------------------------------------ */

static void put_os(struct json *json, const struct snapshot *s) {
  json_open_group(json, "os", '{');
  json_number(json, "alloc", s->acquired);
  json_number(json, "free", s->released);
  json_number(json, "madvise", s->os_madvise);
  json_number(json, "madvise_disabled", s->decommit_disabled);
  json_number(json, "mmap_total", s->os_mmap);
  json_number(json, "fallback_mmap", s->fallback_mmap);
  json_number(json, "huge_alloc", s->huge_alloc);
  json_number(json, "huge_fail", s->huge_fail);
  json_number(json, "munmap", s->os_munmap);
  json_number(json, "mprotect", s->os_mprotect);
  json_number(json, "mremap", s->os_mremap);
  json_number(json, "failed", s->os_failed);
  json_close_group(json, '}');
}

static void put_totals(struct json *json, const struct snapshot *s, const struct sampled *sampled) {
  json_open_group(json, "totals", '{');
  json_number(json, "superslabs_live", s->superslabs);
  json_number(json, "superslabs_peak", s->superslabs_peak);
  json_number(json, "superslabs_warm", s->units_warm);
  json_number(json, "huge_live", s->huge_live);
  json_number(json, "bytes_mapped", s->mapped_bytes);
  json_number(json, "bytes_slab", s->slab_bytes);
  json_number(json, "bytes_large", s->large_bytes);
  json_number(json, "bytes_huge", s->huge_bytes);
  json_number(json, "bytes_in_use", s->in_use);
  json_number(json, "bytes_in_bins", s->in_bins);
  json_close_group(json, '}');
  json_open_group(json, "heaps", '{');
  json_number(json, "active", s->heaps_active);
  json_number(json, "parked", s->heaps_parked);
  json_close_group(json, '}');
  json_open_group(json, "memory", '{');
  json_number(json, "resident", s->resident);
  json_number(json, "live", s->in_use);
  json_number(json, "pinned", s->pinned);
  json_number(json, "bins", s->in_bins);
  json_number(json, "cached", s->cached_bytes);
  json_number(json, "given", s->given_bytes);
  json_number(json, "lost", s->lost);
  json_bytes(json, "peak", sampled != NULL ? sampled->peak.bytes : 0);
  json_bytes(json, "peak_error", sampled != NULL ? sampled->peak.error : 0);
  json_number(json, "peak_samples", sampled != NULL ? sampled->peak.samples : 0);
  json_number(json, "peak_ms", sampled != NULL ? sampled->peak.ms : 0);
  json_close_group(json, '}');
}

static void put_equation(struct json *json, const struct snapshot *snapshot) {
  struct part parts[PARTS];
  stats_parts(snapshot, parts);
  json_open_group(json, "equation", '{');
  json_number(json, "resident", snapshot->resident);
  double sum = 0;
  for (int i = 0; i < PARTS; i++) {
    json_bytes(json, parts[i].name, parts[i].bytes);
    sum += parts[i].bytes;
  }
  json_bytes(json, "difference", (double)snapshot->resident - sum);
  json_bytes(json, "swapped", (double)snapshot->swapped);
  json_boolean(json, "by_page", snapshot->by_page);
  json_boolean(json, "counted", snapshot->counted);
  json_close_group(json, '}');
}

/* Of the equation's live; there only where samples tell it. */
static void put_rounding(struct json *json, const struct sampled *sampled) {
  if (sampled == NULL) return;
  json_open_group(json, "rounding", '{');
  json_bytes(json, "asked", sampled->asked);
  json_bytes(json, "rounding", sampled->rounding);
  json_bytes(json, "error", sampled->error);
  json_number(json, "samples", sampled->samples);
  json_bytes(json, "large", sampled->classes[ROUNDING_LARGE].bytes);
  json_bytes(json, "huge", sampled->classes[ROUNDING_HUGE].bytes);
  json_close_group(json, '}');
}

static void put_parts(struct json *json, const struct snapshot *s) {
  json_open_group(json, "parts", '{');
  json_bytes(json, "spans", s->spans_resident);
  json_bytes(json, "free_slices", s->slices_resident);
  json_bytes(json, "warm_pool", s->warm_resident);
  json_bytes(json, "unused", s->unused_resident);
  json_close_group(json, '}');
}

static void put_counts(struct json *json, const struct remote *remote, const uint64_t *counters,
                       const uint64_t *supplies, bool small) {
  if (remote->layout.counters.counters > COUNT_FREE_REMOTE) {
    json_number(json, "alloc", counters[COUNT_FAST] + counters[COUNT_SLOW]);
    json_number(json, "free", counters[COUNT_FREE_LOCAL] + counters[COUNT_FREE_REMOTE]);
    if (small) {
      json_number(json, "fast", counters[COUNT_FAST]);
      json_number(json, "slow", counters[COUNT_SLOW]);
      json_number(json, "free_fast_local", counters[COUNT_FREE_LOCAL]);
      json_number(json, "free_remote", counters[COUNT_FREE_REMOTE]);
    }
  }
  json_open_group(json, "warm_pool", '{');
  json_number(json, "hits", supplies[SUPPLY_HIT]);
  json_number(json, "misses", supplies[SUPPLY_MISS]);
  json_number(json, "prefilled", supplies[SUPPLY_PREFILLED]);
  json_close_group(json, '}');
}

static void put_class(struct json *json, const struct remote *remote, unsigned c,
                      const struct class_figures *figures, const struct rounding *rounding) {
  json_open_group(json, NULL, '{');
  json_number(json, "class", c);
  json_number(json, "size", figures->size);
  put_counts(json, remote, figures->counters, figures->supplies, true);
  json_open_group(json, "memory", '{');
  json_number(json, "slabs", figures->slabs);
  json_bytes(json, "live", figures->live);
  json_bytes(json, "slack", figures->slack);
  json_bytes(json, "caches", figures->caches);
  json_bytes(json, "fragmentation", figures->fragmentation);
  if (rounding != NULL) {
    json_bytes(json, "rounding", rounding->bytes);
    json_bytes(json, "rounding_error", rounding->error);
    json_number(json, "samples", rounding->samples);
  }
  json_close_group(json, '}');
  json_close_group(json, '}');
}

static void put_threads(struct json *json, const struct snapshot *snapshot) {
  json_open_group(json, "threads", '[');
  for (size_t i = 0; i < snapshot->heap_count; i++) {
    const struct heap_figures *heap = &snapshot->heaps[i];
    if (heap->named) continue;
    json_open_group(json, NULL, '{');
    json_boolean(json, "ended", heap->parked);
    json_boolean(json, "samples", heap->samples);
    json_boolean(json, "common", heap->common);
    if (heap->thread != 0) {
      json_number(json, "thread", (uint64_t)heap->thread);
      json_text(json, "name", heap->name);
    }
    json_number(json, "slabs", heap->slab_bytes);
    json_number(json, "bins", heap->bins);
    json_number(json, "outgoing", heap->outgoing);
    json_number(json, "inbox", heap->inbox);
    json_number(json, "cached", heap->cached);
    json_number(json, "free", heap->free);
    json_number(json, "given", heap->given);
    json_close_group(json, '}');
  }
  json_close_group(json, ']');
}

static void put_named(struct json *json, const struct snapshot *snapshot) {
  json_open_group(json, "named_heaps", '[');
  for (size_t i = 0; i < snapshot->heap_count; i++) {
    const struct heap_figures *heap = &snapshot->heaps[i];
    if (!heap->named) continue;
    json_open_group(json, NULL, '{');
    json_text(json, "name", heap->own_name);
    json_number(json, "live_blocks", heap->live_blocks);
    json_number(json, "live_bytes", heap->live_bytes);
    json_number(json, "peak_bytes", heap->peak_bytes);
    json_number(json, "held_bytes", heap->slab_bytes + heap->span_bytes);
    if (heap->limit != UINT64_MAX) json_number(json, "limit", heap->limit);
    json_number(json, "refused", heap->refused);
    json_close_group(json, '}');
  }
  json_close_group(json, ']');
}

void stats_json(const struct snapshot *snapshot, const struct sampled *sampled,
                const struct remote *remote, FILE *out) {
  struct json json = {.out = out};
  json_open_group(&json, NULL, '{');
  json_number(&json, "version", 1);
  json_text(&json, "hakmem", remote->layout.release);
  json_text(&json, "variant", remote->layout.variant);
  json_number(&json, "pid", (uint64_t)remote->pid);
  json_text(&json, "program", remote->program);
  put_profile(&json, remote);
  json_text(&json, "at", "reading");
  json_boolean(&json, "partial", snapshot->partial);
  put_equation(&json, snapshot);
  put_rounding(&json, sampled);
  put_parts(&json, snapshot);
  put_os(&json, snapshot);
  put_totals(&json, snapshot, sampled);
  json_open_group(&json, "classes", '[');
  for (unsigned c = 0; c < CLASSES_MOST; c++)
    if (snapshot->classes[c].size > 0)
      put_class(&json, remote, c, &snapshot->classes[c],
                sampled != NULL ? &sampled->classes[c] : NULL);
  json_close_group(&json, ']');
  static const char *const tiers[] = {"large", "huge"};
  for (int i = 0; i < 2; i++) {
    json_open_group(&json, tiers[i], '{');
    put_counts(&json, remote, snapshot->huge_counters[i], snapshot->huge_supplies[i], false);
    json_close_group(&json, '}');
  }
  put_threads(&json, snapshot);
  put_named(&json, snapshot);
  put_options(&json, remote);
  json_close_group(&json, '}');
  fputc('\n', out);
}
