/* stats_json.c - hakmem stats --format json: one line. What HAKMEM_STATS=json has as well has the same name and means the
 * same (hakmem(5)). */
#include <stdlib.h>
#include <string.h>

#include "observe/counters.h"
#include "stats.h"

struct json {
  FILE *out;
  bool comma;
};

static void start(struct json *json, const char *name) {
  if (json->comma) fputc(',', json->out);
  json->comma = true;
  if (name != NULL) fprintf(json->out, "\"%s\":", name);
}

static void open_group(struct json *json, const char *name, char bracket) {
  start(json, name);
  fputc(bracket, json->out);
  json->comma = false;
}

static void close_group(struct json *json, char bracket) {
  fputc(bracket, json->out);
  json->comma = true;
}

static void number(struct json *json, const char *name, uint64_t value) {
  start(json, name);
  fprintf(json->out, "%llu", (unsigned long long)value);
}

static void bytes(struct json *json, const char *name, double value) {
  start(json, name);
  fprintf(json->out, "%.0f", value);
}

static void boolean(struct json *json, const char *name, bool value) {
  start(json, name);
  fputs(value ? "true" : "false", json->out);
}

/* As the library writes it: what is not printable ASCII becomes '?'. */
static void text(struct json *json, const char *name, const char *value) {
  start(json, name);
  fputc('"', json->out);
  for (; *value != 0; value++) {
    if (*value == '"' || *value == '\\') fputc('\\', json->out);
    fputc(*value < ' ' || *value > '~' ? '?' : *value, json->out);
  }
  fputc('"', json->out);
}

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
    text(json, name, chosen);
  } else {
    start(json, name);
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
    open_group(json, "options", '{');
    for (uint32_t i = 0; i < count; i++)
      put_option(json, remote, (struct copy){rows + (size_t)i * stride, stride}, values[i]);
    close_group(json, '}');
  }
  free(rows);
  free(values);
}

static void put_profile(struct json *json, const struct remote *remote) {
  static const char *const names[] = {"speed", "balanced", "lean"};
  int32_t value = 0;
  if (remote_option(remote, "HAKMEM_PROFILE", &value) && value >= 0 && value < 3)
    text(json, "profile", names[value]);
}

/* --- figures ------------------------------------------------------------------------------------------ */

static void put_os(struct json *json, const struct snapshot *s) {
  open_group(json, "os", '{');
  number(json, "alloc", s->acquired);
  number(json, "free", s->released);
  number(json, "madvise", s->os_madvise);
  number(json, "madvise_disabled", s->decommit_disabled);
  number(json, "mmap_total", s->os_mmap);
  number(json, "fallback_mmap", s->fallback_mmap);
  number(json, "huge_alloc", s->huge_alloc);
  number(json, "huge_fail", s->huge_fail);
  number(json, "munmap", s->os_munmap);
  number(json, "mprotect", s->os_mprotect);
  number(json, "mremap", s->os_mremap);
  number(json, "failed", s->os_failed);
  close_group(json, '}');
}

static void put_totals(struct json *json, const struct snapshot *s) {
  open_group(json, "totals", '{');
  number(json, "superslabs_live", s->superslabs);
  number(json, "superslabs_peak", s->superslabs_peak);
  number(json, "superslabs_warm", s->units_warm);
  number(json, "huge_live", s->huge_live);
  number(json, "bytes_mapped", s->mapped_bytes);
  number(json, "bytes_slab", s->slab_bytes);
  number(json, "bytes_large", s->large_bytes);
  number(json, "bytes_huge", s->huge_bytes);
  number(json, "bytes_in_use", s->in_use);
  number(json, "bytes_in_bins", s->in_bins);
  close_group(json, '}');
  open_group(json, "heaps", '{');
  number(json, "active", s->heaps_active);
  number(json, "parked", s->heaps_parked);
  close_group(json, '}');
  open_group(json, "memory", '{');
  number(json, "resident", s->resident);
  number(json, "live", s->in_use);
  number(json, "pinned", s->free > s->given_bytes ? s->free - s->given_bytes : 0);
  number(json, "bins", s->in_bins);
  number(json, "cached", s->cached_bytes);
  number(json, "given", s->given_bytes);
  close_group(json, '}');
}

static void put_equation(struct json *json, const struct snapshot *snapshot) {
  struct part parts[PARTS];
  stats_parts(snapshot, parts);
  open_group(json, "equation", '{');
  number(json, "resident", snapshot->resident);
  double sum = 0;
  for (int i = 0; i < PARTS; i++) {
    bytes(json, parts[i].name, parts[i].bytes);
    sum += parts[i].bytes;
  }
  bytes(json, "difference", (double)snapshot->resident - sum);
  bytes(json, "swapped", (double)snapshot->swapped);
  boolean(json, "by_page", snapshot->by_page);
  boolean(json, "counted", snapshot->counted);
  close_group(json, '}');
}

static void put_counts(struct json *json, const struct remote *remote, const uint64_t *counters,
                       const uint64_t *supplies, bool small) {
  if (remote->layout.counters.counters > COUNT_FREE_REMOTE) {
    number(json, "alloc", counters[COUNT_FAST] + counters[COUNT_SLOW]);
    number(json, "free", counters[COUNT_FREE_LOCAL] + counters[COUNT_FREE_REMOTE]);
    if (small) {
      number(json, "fast", counters[COUNT_FAST]);
      number(json, "slow", counters[COUNT_SLOW]);
      number(json, "free_fast_local", counters[COUNT_FREE_LOCAL]);
      number(json, "free_remote", counters[COUNT_FREE_REMOTE]);
    }
  }
  open_group(json, "warm_pool", '{');
  number(json, "hits", supplies[SUPPLY_HIT]);
  number(json, "misses", supplies[SUPPLY_MISS]);
  number(json, "prefilled", supplies[SUPPLY_PREFILLED]);
  close_group(json, '}');
}

static void put_class(struct json *json, const struct remote *remote, unsigned c,
                      const struct class_figures *figures) {
  open_group(json, NULL, '{');
  number(json, "class", c);
  number(json, "size", figures->size);
  put_counts(json, remote, figures->counters, figures->supplies, true);
  open_group(json, "memory", '{');
  number(json, "slabs", figures->slabs);
  bytes(json, "live", figures->live);
  bytes(json, "slack", figures->slack);
  bytes(json, "caches", figures->caches);
  bytes(json, "fragmentation", figures->fragmentation);
  close_group(json, '}');
  close_group(json, '}');
}

static void put_threads(struct json *json, const struct snapshot *snapshot) {
  open_group(json, "threads", '[');
  for (size_t i = 0; i < snapshot->heap_count; i++) {
    const struct heap_figures *heap = &snapshot->heaps[i];
    open_group(json, NULL, '{');
    boolean(json, "ended", heap->parked);
    boolean(json, "samples", heap->samples);
    if (heap->thread != 0) {
      number(json, "thread", (uint64_t)heap->thread);
      text(json, "name", heap->name);
    }
    number(json, "slabs", heap->slab_bytes);
    number(json, "bins", heap->bins);
    number(json, "outgoing", heap->outgoing);
    number(json, "inbox", heap->inbox);
    number(json, "cached", heap->cached);
    number(json, "free", heap->free);
    number(json, "given", heap->given);
    close_group(json, '}');
  }
  close_group(json, ']');
}

void stats_json(const struct snapshot *snapshot, const struct remote *remote, FILE *out) {
  struct json json = {.out = out};
  open_group(&json, NULL, '{');
  number(&json, "version", 1);
  text(&json, "hakmem", remote->layout.release);
  text(&json, "variant", remote->layout.variant);
  number(&json, "pid", (uint64_t)remote->pid);
  text(&json, "program", remote->program);
  put_profile(&json, remote);
  text(&json, "at", "reading");
  boolean(&json, "partial", snapshot->partial);
  put_equation(&json, snapshot);
  put_os(&json, snapshot);
  put_totals(&json, snapshot);
  open_group(&json, "classes", '[');
  for (unsigned c = 0; c < CLASSES_MOST; c++)
    if (snapshot->classes[c].size > 0) put_class(&json, remote, c, &snapshot->classes[c]);
  close_group(&json, ']');
  static const char *const tiers[] = {"large", "huge"};
  for (int i = 0; i < 2; i++) {
    open_group(&json, tiers[i], '{');
    put_counts(&json, remote, snapshot->huge_counters[i], snapshot->huge_supplies[i], false);
    close_group(&json, '}');
  }
  put_threads(&json, snapshot);
  put_options(&json, remote);
  close_group(&json, '}');
  fputc('\n', out);
}
