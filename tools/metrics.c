/* metrics.c - see metrics.h. */
#define _GNU_SOURCE
#include "metrics.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "metric_families.h"
#include "profile.h"
#include "stats.h"

struct metrics {
  enum metrics_format format;
  unsigned processes;
  bool failed, classes;
  struct left_out left_out;
  bool knows_left_out;
  /* Of which samples are added. */
  const struct remote *remote;
  const struct container *container;
  struct {
    FILE *file;
    char *text;
    size_t size;
  } samples[FAMILIES];
};

struct metrics *metrics_open(enum metrics_format format, bool classes) {
  struct metrics *metrics = calloc(1, sizeof *metrics);
  if (metrics == NULL) return NULL;
  metrics->format = format;
  metrics->classes = classes;
  return metrics;
}

void metrics_left_out(struct metrics *metrics, const struct left_out *left_out) {
  metrics->left_out = *left_out;
  metrics->knows_left_out = true;
}

static void write_left_out(const struct metrics *metrics, FILE *out) {
  const struct left_out *left_out = &metrics->left_out;
  const char *name = metric_families[LEFT_OUT].name;
  if (!metrics->knows_left_out) return;
  fprintf(out, "%s{reason=\"late\"} %u\n", name, left_out->late);
  fprintf(out, "%s{reason=\"time\"} %u\n", name, left_out->time);
  fprintf(out, "%s{reason=\"number\"} %u\n", name, left_out->number);
  fprintf(out, "%s{reason=\"unreadable\"} %u\n", name, left_out->unreadable);
}

static void write_family(const struct metrics *metrics, const struct family *family, FILE *out) {
  const char *suffix = "", *type = family->type;
  bool plain = metrics->format == METRICS_PLAIN;
  if (plain && strcmp(type, "counter") == 0) suffix = "_total";
  if (plain && strcmp(type, "info") == 0) {
    suffix = "_info";
    type = "gauge";
  }
  fprintf(out, "# TYPE %s%s %s\n", family->name, suffix, type);
  if (!plain && family->unit != NULL) fprintf(out, "# UNIT %s %s\n", family->name, family->unit);
  fprintf(out, "# HELP %s%s %s\n", family->name, suffix, family->help);
}

bool metrics_close(struct metrics *metrics, FILE *out) {
  for (int i = 0; i < FAMILIES; i++) {
    write_family(metrics, &metric_families[i], out);
    if (i == PROCESSES) fprintf(out, "%s %u\n", metric_families[i].name, metrics->processes);
    if (i == LEFT_OUT) write_left_out(metrics, out);
    FILE *file = metrics->samples[i].file;
    if (file == NULL) continue;
    if (fclose(file) != 0) metrics->failed = true;
    else fwrite(metrics->samples[i].text, 1, metrics->samples[i].size, out);
    free(metrics->samples[i].text);
  }
  if (metrics->format == METRICS_OPEN) fprintf(out, "# EOF\n");
  bool whole = !metrics->failed;
  free(metrics);
  return whole;
}

/* --- samples ------------------------------------------------------------------------------------------- */

static char shown(char letter) { return letter < ' ' || letter > '~' ? '?' : letter; }

static void write_value(const char *value, FILE *out) {
  for (; *value != 0; value++) {
    if (*value == '"' || *value == '\\') fputc('\\', out);
    fputc(shown(*value), out);
  }
}

static void write_label(const char *name, const char *value, FILE *out) {
  if (value[0] == 0) return; /* an empty one is none */
  fprintf(out, ",%s=\"", name);
  write_value(value, out);
  fputc('"', out);
}

/* Labels beside those of the process: names and values in turn, and NULL. */
static void put_labels(struct metrics *metrics, enum family_id id, double value, ...) {
  FILE **file = &metrics->samples[id].file;
  if (*file == NULL) *file = open_memstream(&metrics->samples[id].text, &metrics->samples[id].size);
  if (*file == NULL) {
    metrics->failed = true;
    return;
  }
  const char *type = metric_families[id].type;
  fprintf(*file, "%s%s{pid=\"%d\",program=\"", metric_families[id].name,
          strcmp(type, "counter") == 0 ? "_total"
          : strcmp(type, "info") == 0  ? "_info"
                                       : "",
          metrics->remote->pid);
  write_value(metrics->remote->program, *file);
  fputc('"', *file);
  write_label("container_id", metrics->container->id, *file);
  write_label("pod_uid", metrics->container->pod, *file);
  va_list labels;
  va_start(labels, value);
  for (const char *name; (name = va_arg(labels, const char *)) != NULL;)
    write_label(name, va_arg(labels, const char *), *file);
  va_end(labels);
  fprintf(*file, "} %.0f\n", value);
}

static void put(struct metrics *metrics, enum family_id id, double value) {
  put_labels(metrics, id, value, NULL);
}

/* As the labels show them. */
static int compare_shown(const char *a, const char *b) {
  while (*a != 0 && *b != 0 && shown(*a) == shown(*b)) a++, b++;
  return (*a != 0 ? shown(*a) : 0) - (*b != 0 ? shown(*b) : 0);
}

static int by_name(const void *a, const void *b) {
  const struct heap_figures *const *left = a, *const *right = b;
  return compare_shown((*left)->own_name, (*right)->own_name);
}

/* Several heaps may have one name, and a series can be there only once. */
static void put_named(struct metrics *metrics, const struct snapshot *snapshot) {
  size_t count = 0;
  const struct heap_figures **named = calloc(snapshot->heap_count + 1, sizeof(void *));
  for (size_t i = 0; named != NULL && i < snapshot->heap_count; i++)
    if (snapshot->heaps[i].named) named[count++] = &snapshot->heaps[i];
  if (named == NULL) metrics->failed = true;
  else qsort(named, count, sizeof(void *), by_name);
  for (size_t i = 0; i < count;) {
    const char *name = named[i]->own_name;
    double live = 0;
    for (; i < count && compare_shown(named[i]->own_name, name) == 0; i++)
      live += (double)named[i]->live_bytes;
    put_labels(metrics, NAMED, live, "heap", name, NULL);
  }
  free(named);
}

static void put_memory(struct metrics *metrics, const struct snapshot *snapshot) {
  struct part parts[PARTS];
  stats_parts(snapshot, parts);
  put(metrics, RESIDENT, (double)snapshot->resident);
  for (int i = 0; i < PARTS; i++)
    put_labels(metrics, MEMORY, parts[i].bytes, "part", parts[i].name, NULL);
  put(metrics, IN_USE, (double)snapshot->in_use);
  put(metrics, MAPPED, (double)snapshot->mapped_bytes);
  put(metrics, GIVEN, (double)snapshot->given_bytes);
  put(metrics, PARTIAL, snapshot->partial);
  put_labels(metrics, HEAPS, (double)snapshot->heaps_active, "state", "active", NULL);
  put_labels(metrics, HEAPS, (double)snapshot->heaps_parked, "state", "parked", NULL);
  put_named(metrics, snapshot);
}

static void put_classes(struct metrics *metrics, const struct snapshot *snapshot) {
  for (unsigned c = 0; c < CLASSES_MOST; c++) {
    const struct class_figures *figures = &snapshot->classes[c];
    const struct part parts[] = {{"live", "", "", figures->live},
                                 {"slack", "", "", figures->slack},
                                 {"caches", "", "", figures->caches},
                                 {"fragmentation", "", "", figures->fragmentation}};
    char size[16];
    snprintf(size, sizeof size, "%u", figures->size);
    for (int i = 0; i < 4 && figures->slabs > 0; i++)
      put_labels(metrics, CLASS, parts[i].bytes, "size", size, "part", parts[i].name, NULL);
  }
}

static void put_caches(struct metrics *metrics, const struct snapshot *snapshot) {
  double bins = 0, outgoing = 0, inbox = 0;
  for (size_t i = 0; i < snapshot->heap_count; i++) {
    bins += (double)snapshot->heaps[i].bins;
    outgoing += (double)snapshot->heaps[i].outgoing;
    inbox += (double)snapshot->heaps[i].inbox;
  }
  put_labels(metrics, CACHE, bins, "where", "bins", NULL);
  put_labels(metrics, CACHE, outgoing, "where", "outgoing", NULL);
  put_labels(metrics, CACHE, inbox, "where", "inbox", NULL);
  put_labels(metrics, CACHE, snapshot->spans_resident, "where", "large", NULL);
  put_labels(metrics, CACHE, snapshot->slices_resident, "where", "slices", NULL);
  put_labels(metrics, CACHE, snapshot->warm_resident, "where", "warm_pool", NULL);
}

static void put_calls(struct metrics *metrics, const struct snapshot *snapshot) {
  put_labels(metrics, CALLS, (double)snapshot->os_mmap, "call", "mmap", NULL);
  put_labels(metrics, CALLS, (double)snapshot->os_munmap, "call", "munmap", NULL);
  put_labels(metrics, CALLS, (double)snapshot->os_madvise, "call", "madvise", NULL);
  put_labels(metrics, CALLS, (double)snapshot->os_mremap, "call", "mremap", NULL);
  put_labels(metrics, CALLS, (double)snapshot->os_mprotect, "call", "mprotect", NULL);
  put(metrics, CALLS_REFUSED, (double)snapshot->os_failed);
}

static void put_sampled(struct metrics *metrics, const struct snapshot *snapshot,
                        const struct profile *profile) {
  char size[16];
  struct sampled *sampled = calloc(1, sizeof *sampled);
  if (sampled == NULL || !sampled_find(sampled, snapshot, profile, metrics->remote)) {
    metrics->failed = true;
  } else if (sampled->known) {
    put(metrics, ROUNDING, sampled->rounding);
    put(metrics, ROUNDING_ERROR, sampled->error);
    for (unsigned c = 0; c < CLASSES_MOST && metrics->classes; c++) {
      snprintf(size, sizeof size, "%u", snapshot->classes[c].size);
      if (snapshot->classes[c].slabs > 0)
        put_labels(metrics, CLASS_ROUNDING, sampled->classes[c].bytes, "size", size, NULL);
    }
    put(metrics, PEAK, sampled->peak.bytes);
    put(metrics, PEAK_ERROR, sampled->peak.error);
    put(metrics, PEAK_AT, (double)time(NULL) - (double)sampled->peak.ms / 1000);
  }
  free(sampled);
}

/* Nothing where there is no sampler, or it may not be read. */
static void put_samples(struct metrics *metrics, const struct snapshot *snapshot,
                        const struct remote *remote) {
  struct profile profile;
  if (remote->shared || remote->samples == 0 || profile_read(&profile, remote) != 0) return;
  double bytes = 0, blocks = 0;
  for (size_t i = 0; i < profile.site_count; i++) {
    bytes += profile.sites[i].allocated_bytes;
    blocks += profile.sites[i].allocated_blocks;
  }
  put(metrics, ALLOCATED_BYTES, bytes);
  put(metrics, ALLOCATED_BLOCKS, blocks);
  put(metrics, SAMPLES, (double)profile.samples);
  put(metrics, SAMPLES_DROPPED, (double)profile.dropped);
  put(metrics, SAMPLES_LIVE, (double)profile.live_samples);
  put(metrics, SAMPLE_RATE, profile.rate > 0 ? (double)profile.rate : 0);
  put_sampled(metrics, snapshot, &profile);
  profile_free(&profile);
}

/* When the machine started, in seconds since 1970; 0: it does not say. */
static double boot_time(void) {
  static unsigned long long
      seconds; /* it does not change, and to read it costs with each processor */
  char line[256];
  if (seconds > 0) return (double)seconds;
  FILE *file = fopen("/proc/stat", "re");
  if (file == NULL) return 0;
  while (fgets(line, sizeof line, file) != NULL)
    if (strncmp(line, "btime ", 6) == 0) seconds = strtoull(line + 6, NULL, 10);
  fclose(file);
  return (double)seconds;
}

static void put_process(struct metrics *metrics, const struct remote *remote) {
  enum { MINOR_FAULTS = 10, MAJOR_FAULTS = 12 }; /* fields of /proc/PID/stat */
  double boot = boot_time();
  put_labels(metrics, FAULTS, (double)remote_stat(remote->pid, MINOR_FAULTS), "kind", "minor",
             NULL);
  put_labels(metrics, FAULTS, (double)remote_stat(remote->pid, MAJOR_FAULTS), "kind", "major",
             NULL);
  if (boot > 0)
    put(metrics, START_TIME, boot + (double)remote->birth / (double)sysconf(_SC_CLK_TCK));
}

static void put_limit(struct metrics *metrics, const char *name, const struct limit *limit) {
  if (limit->most <= 0) return;
  put_labels(metrics, LIMIT, limit->most, "limit", name, NULL);
  put_labels(metrics, LIMIT_USED, limit->used, "limit", name, NULL);
}

void metrics_add(struct metrics *metrics, const struct snapshot *snapshot,
                 const struct remote *remote, const struct container *container,
                 const struct limits *limits) {
  metrics->remote = remote;
  metrics->container = container;
  metrics->processes++;
  put_labels(metrics, INFO, 1, "release", remote->layout.release, "variant", remote->layout.variant,
             NULL);
  put_memory(metrics, snapshot);
  put_calls(metrics, snapshot);
  /* The sums that a process keeps for others have none of these. */
  if (!snapshot->counted) {
    put(metrics, SWAPPED, (double)snapshot->swapped);
    put(metrics, RETURNABLE,
        snapshot->warm_resident + snapshot->slices_resident + snapshot->spans_resident);
    if (metrics->classes) put_classes(metrics, snapshot);
    put_caches(metrics, snapshot);
  }
  put_limit(metrics, "container", &limits->container);
  put_limit(metrics, "address_space", &limits->address_space);
  put_samples(metrics, snapshot, remote);
  put_process(metrics, remote);
}

/* --- hakmem stats --format openmetrics or prometheus ------------------------------------------------------ */

static void write_one(enum metrics_format format, const struct snapshot *snapshot,
                      const struct remote *remote, FILE *out) {
  struct metrics *metrics = metrics_open(format, true);
  struct container container;
  struct limit_place place;
  struct limits limits;
  container_read(&container, remote->pid);
  limits_find(&place, remote->pid);
  limits_read(&limits, &place, remote->pid);
  if (metrics != NULL) metrics_add(metrics, snapshot, remote, &container, &limits);
  if (metrics == NULL || !metrics_close(metrics, out)) complain("out of memory");
}

void stats_metrics(const struct snapshot *snapshot, const struct sampled *sampled,
                   const struct remote *remote, FILE *out) {
  (void)sampled; /* it finds it by its own profile */
  write_one(METRICS_OPEN, snapshot, remote, out);
}

void stats_metrics_plain(const struct snapshot *snapshot, const struct sampled *sampled,
                         const struct remote *remote, FILE *out) {
  (void)sampled;
  write_one(METRICS_PLAIN, snapshot, remote, out);
}
