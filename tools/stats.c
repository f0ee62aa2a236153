/* stats.c - hakmem stats PID: where the memory of a running process is. The command, and the text that it prints. */
#define _GNU_SOURCE
#include "stats.h"

#include <argp.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "core.h"
#include "core_choice.h"
#include "limits.h"
#include "listed.h"
#include "processes.h"

void stats_parts(const struct snapshot *snapshot, struct part parts[PARTS]) {
  const struct part all[PARTS] = {
      {"live", "live", "blocks that the program holds, with what rounding added to their sizes",
       snapshot->live},
      {"slack", "slack", "behind the last block of a slab, and behind the end of a huge block",
       snapshot->slack},
      {"caches", "caches",
       "free, kept to be handed out fast: bins, batches, large blocks, free slices, warm pool",
       snapshot->caches},
      {"fragmentation", "fragmentation",
       "free blocks beside live ones, and memory of slabs that was no block yet",
       snapshot->fragmentation},
      {"metadata", "metadata", "descriptors, heaps, address map, the library itself",
       snapshot->metadata},
      {"not_ours", "not ours", "the program's code and data, its stacks, its own mappings",
       snapshot->not_ours},
  };
  memcpy(parts, all, sizeof all);
}

void stats_equation(const struct snapshot *snapshot, char *text, size_t room) {
  struct part parts[PARTS];
  stats_parts(snapshot, parts);
  int length = snprintf(text, room, "resident %llu =", (unsigned long long)snapshot->resident);
  for (int i = 0; i < PARTS && length >= 0 && (size_t)length < room; i++)
    length += snprintf(text + length, room - (size_t)length, "%s %s %.0f", i > 0 ? " +" : "",
                       parts[i].text, parts[i].bytes);
}

double stats_waste(const struct class_figures *figures) {
  return figures->caches + figures->fragmentation + figures->slack;
}

/* qsort has no argument for it. */
static const struct snapshot *compared;

static int by_waste(const void *a, const void *b) {
  double left = stats_waste(&compared->classes[*(const unsigned *)a]);
  double right = stats_waste(&compared->classes[*(const unsigned *)b]);
  return left < right ? 1 : left > right ? -1 : 0;
}

unsigned stats_classes_by_waste(const struct snapshot *snapshot, unsigned classes[CLASSES_MOST]) {
  unsigned count = 0;
  for (unsigned c = 0; c < CLASSES_MOST; c++)
    if (snapshot->classes[c].slabs > 0) classes[count++] = c;
  compared = snapshot;
  qsort(classes, count, sizeof classes[0], by_waste);
  return count;
}

uint64_t stats_kept(const struct heap_figures *figures) {
  return figures->bins + figures->outgoing + figures->inbox + figures->cached;
}

static int by_kept(const void *a, const void *b) {
  uint64_t left = stats_kept(a), right = stats_kept(b);
  return left < right ? 1 : left > right ? -1 : 0;
}

void stats_sort_heaps(struct snapshot *snapshot) {
  if (snapshot->heap_count > 0)
    qsort(snapshot->heaps, snapshot->heap_count, sizeof snapshot->heaps[0], by_kept);
}

char *stats_thread(const struct heap_figures *heap, char text[40]) {
  if (heap->named) snprintf(text, 40, "heap \"%.31s\"", heap->own_name);
  else if (heap->samples) snprintf(text, 40, "samples");
  else if (heap->common) snprintf(text, 40, "for all");
  else if (heap->parked) snprintf(text, 40, "ended");
  else if (heap->thread == 0) snprintf(text, 40, "in use");
  else snprintf(text, 40, "%d%s%s", heap->thread, heap->name[0] != 0 ? " " : "", heap->name);
  return text;
}

char *stats_age(uint64_t ms, char text[32]) {
  uint64_t seconds = ms / 1000;
  if (seconds < 120) snprintf(text, 32, "%llu s", (unsigned long long)seconds);
  else if (seconds < 7200) snprintf(text, 32, "%llu min", (unsigned long long)seconds / 60);
  else snprintf(text, 32, "%llu h", (unsigned long long)seconds / 3600);
  return text;
}

const char *stats_plural(uint64_t count) { return count == 1 ? "" : "s"; }

char *stats_bytes(double bytes, char text[16]) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  for (; fabs(bytes) >= 1024 && unit < 4; unit++) bytes /= 1024;
  snprintf(text, 16, unit == 0 ? "%.0f %s" : "%.1f %s", bytes, units[unit]);
  return text;
}

/* --- text ------------------------------------------------------------------------------------------ */

enum { ROWS_MOST = 12 };

static double share(const struct snapshot *snapshot, double bytes) {
  return snapshot->resident > 0 ? 100 * bytes / (double)snapshot->resident : 0;
}

/* Of what lives. */
static void print_rounding(const struct snapshot *snapshot, const struct sampled *sampled,
                           FILE *out) {
  char bytes[16], error[16];
  fprintf(out, "    %-11s %10s %5.1f%%  by %llu live sample%s\n", "asked for",
          stats_bytes(sampled->asked, bytes), share(snapshot, sampled->asked),
          (unsigned long long)sampled->samples, stats_plural(sampled->samples));
  fprintf(out, "    %-11s %10s %5.1f%%  added to their sizes; in 19 of 20 cases within %s\n",
          "rounding", stats_bytes(sampled->rounding, bytes), share(snapshot, sampled->rounding),
          stats_bytes(sampled->error, error));
}

void stats_print_parts(const struct snapshot *snapshot, const struct sampled *sampled, FILE *out) {
  struct part parts[PARTS];
  char text[16], error[16], age[32];
  const struct peak *peak = sampled != NULL ? &sampled->peak : NULL;
  stats_parts(snapshot, parts);
  for (int i = 0; i < PARTS; i++) {
    fprintf(out, "  %-13s %10s %5.1f%%  %s\n", parts[i].text, stats_bytes(parts[i].bytes, text),
            share(snapshot, parts[i].bytes), parts[i].what);
    if (i == 0 && sampled != NULL) print_rounding(snapshot, sampled, out);
  }
  if (peak == NULL) return;
  fprintf(out,
          "at the peak, %s %s, %s asked for (by %llu sample%s; in 19 of 20 cases within %s): "
          "hakmem prof --peak\n",
          stats_age(peak->ms, age), sampled->ended ? "before the last sample" : "ago",
          stats_bytes(peak->bytes, text), (unsigned long long)peak->samples,
          stats_plural(peak->samples), stats_bytes(peak->error, error));
}

static void print_classes(const struct snapshot *snapshot, const struct sampled *sampled,
                          FILE *out) {
  unsigned classes[CLASSES_MOST], count = stats_classes_by_waste(snapshot, classes);
  char text[6][16];
  if (count == 0) return;
  fprintf(out,
          "\nwaste by size of blocks, resident bytes\n  %8s %10s %10s %10s %13s %10s %10s %8s\n",
          "size", "live", "rounding", "caches", "fragmentation", "slack", "waste", "slabs");
  for (unsigned i = 0; i < count && i < ROWS_MOST; i++) {
    const struct class_figures *figures = &snapshot->classes[classes[i]];
    fprintf(out, "  %8u %10s %10s %10s %13s %10s %10s %8llu\n", figures->size,
            stats_bytes(figures->live, text[0]),
            sampled != NULL ? stats_bytes(sampled->classes[classes[i]].bytes, text[5]) : "-",
            stats_bytes(figures->caches, text[1]), stats_bytes(figures->fragmentation, text[2]),
            stats_bytes(figures->slack, text[3]), stats_bytes(stats_waste(figures), text[4]),
            (unsigned long long)figures->slabs);
  }
  if (count > ROWS_MOST) fprintf(out, "  and %u more sizes\n", count - ROWS_MOST);
  fprintf(out, "  free slices %s, large blocks in caches %s, warm pool %s\n",
          stats_bytes(snapshot->slices_resident, text[0]),
          stats_bytes(snapshot->spans_resident, text[1]),
          stats_bytes(snapshot->warm_resident, text[2]));
}

void stats_print_heaps(const struct snapshot *snapshot, FILE *out) {
  char text[6][16];
  fprintf(out,
          "\nheaps of threads: %zu in use, %zu of threads that have ended; what they keep, bytes\n"
          "  %-26s %10s %10s %10s %10s %10s\n",
          snapshot->heaps_active, snapshot->heaps_parked, "thread", "slabs", "bins", "unsent",
          "inbox", "large");
  for (size_t i = 0; i < snapshot->heap_count && i < ROWS_MOST; i++) {
    const struct heap_figures *heap = &snapshot->heaps[i];
    char thread[40];
    fprintf(out, "  %-26s %10s %10s %10s %10s %10s\n", stats_thread(heap, thread),
            stats_bytes((double)heap->slab_bytes, text[0]),
            stats_bytes((double)heap->bins, text[1]), stats_bytes((double)heap->outgoing, text[2]),
            stats_bytes((double)heap->inbox, text[3]), stats_bytes((double)heap->cached, text[4]));
  }
  if (snapshot->heap_count > ROWS_MOST)
    fprintf(out, "  and %zu more\n", snapshot->heap_count - ROWS_MOST);
}

static void print_named(const struct snapshot *snapshot, FILE *out) {
  char text[4][16];
  unsigned rows = 0;
  fprintf(out,
          "\nheaps that the program has made: %zu; bytes of blocks\n"
          "  %-32s %12s %10s %10s %10s %10s %10s\n",
          snapshot->heaps_named, "name", "blocks", "live", "peak", "held", "limit", "refused");
  for (size_t i = 0; i < snapshot->heap_count && rows < ROWS_MOST; i++) {
    const struct heap_figures *heap = &snapshot->heaps[i];
    if (!heap->named) continue;
    rows++;
    fprintf(out, "  %-32.32s %12llu %10s %10s %10s %10s %10llu\n", heap->own_name,
            (unsigned long long)heap->live_blocks, stats_bytes((double)heap->live_bytes, text[0]),
            stats_bytes((double)heap->peak_bytes, text[1]),
            stats_bytes((double)(heap->slab_bytes + heap->span_bytes), text[2]),
            heap->limit == UINT64_MAX ? "none" : stats_bytes((double)heap->limit, text[3]),
            (unsigned long long)heap->refused);
  }
  if (snapshot->heaps_named > rows) fprintf(out, "  and %zu more\n", snapshot->heaps_named - rows);
}

/* Where the kernel kills, and where malloc fails. */
static void print_limits(const struct remote *remote, FILE *out) {
  struct limit_place place;
  struct limits limits;
  char most[16], used[16];
  if (remote->core != NULL) return;
  limits_find(&place, remote->pid);
  limits_read(&limits, &place, remote->pid);
  if (limits.container.most > 0)
    fprintf(out, "limit of the container: %s, of which all that runs there uses %s\n",
            stats_bytes(limits.container.most, most), stats_bytes(limits.container.used, used));
  if (limits.address_space.most > 0)
    fprintf(out, "limit of address space: %s, of which %s are used\n",
            stats_bytes(limits.address_space.most, most),
            stats_bytes(limits.address_space.used, used));
}

const char *stats_moment(const struct snapshot *snapshot, const struct remote *remote) {
  if (remote->core == NULL)
    return snapshot->partial ? "; it changed while it was read: figures are of several moments"
                             : "";
  if (remote->core->is_box)
    return snapshot->partial ? "; of its black box, which has not all: figures are too small"
                             : "; of its black box";
  return snapshot->partial
             ? "; of its core, which has not all that hakmem had: figures are too small"
             : "; of its core: pages that are not all zeros count as resident";
}

void stats_text(const struct snapshot *snapshot, const struct sampled *sampled,
                const struct remote *remote, FILE *out) {
  char equation[512];
  stats_equation(snapshot, equation, sizeof equation);
  fprintf(out, "%s\n", equation);
  fprintf(out, "%s (%d), hakmem %s (%s)", remote->program, remote->pid, remote->layout.release,
          remote->layout.variant);
  if (snapshot->counted)
    fprintf(out, "; may not be read: sums that it wrote %.1f s ago (HAKMEM_SHM), resident or not",
            snapshot->age);
  else
    fprintf(out, "%s%s", stats_moment(snapshot, remote),
            snapshot->by_page
                ? ""
                : "; pages cannot be told apart here: figures are shares of mappings");
  fputc('\n', out);
  stats_print_parts(snapshot, sampled, out);
  print_limits(remote, out);
  print_classes(snapshot, sampled, out);
  if (!snapshot->counted) stats_print_heaps(snapshot, out);
  if (snapshot->heaps_named > 0) print_named(snapshot, out);
  fprintf(out,
          "\nsystem calls since the start\n"
          "  mmap %llu, munmap %llu, madvise %llu, mremap %llu, mprotect %llu, refused %llu\n",
          (unsigned long long)snapshot->os_mmap, (unsigned long long)snapshot->os_munmap,
          (unsigned long long)snapshot->os_madvise, (unsigned long long)snapshot->os_mremap,
          (unsigned long long)snapshot->os_mprotect, (unsigned long long)snapshot->os_failed);
}

/* --- the command ------------------------------------------------------------------------------------ */

struct arguments {
  char *format;
  struct words words;
  struct core_choice core;
};

enum { KEY_FORMAT = 1000 };

static const struct argp_option options[] = {
    {"format", KEY_FORMAT, "FORMAT", 0, "text (default), json, openmetrics or prometheus", 0},
    {0},
};

static error_t parse(int key, char *value, struct argp_state *state) {
  struct arguments *arguments = state->input;
  switch (key) {
  case ARGP_KEY_INIT:
    state->child_inputs[0] = &arguments->core;
    return 0;
  case KEY_FORMAT:
    arguments->format = value;
    return 0;
  default:
    return take_words(key, state, &arguments->words);
  }
}

static const struct argp parser = {
    .options = options,
    .parser = parse,
    .children = core_children,
    .args_doc = "[PID|NAME...]\nFILE",
    .doc = "Show where the memory of a process is that runs on hakmem: what is resident, part by "
           "part, by "
           "size of blocks, by thread. The process is only read, it needs no option and does "
           "nothing for it. Without one, or with the name of several, list the processes on "
           "hakmem, the largest first. FILE is a "
           "core file.",
};

typedef void write_format(const struct snapshot *, const struct sampled *, const struct remote *,
                          FILE *);

static write_format *find_format(const char *name) {
  if (name == NULL || strcmp(name, "text") == 0) return stats_text;
  if (strcmp(name, "json") == 0) return stats_json;
  if (strcmp(name, "openmetrics") == 0) return stats_metrics;
  if (strcmp(name, "prometheus") == 0) return stats_metrics_plain;
  return NULL;
}

int stats_list(bool json, FILE *out) {
  struct processes all;
  bool found = processes_find_all(&all);
  if (found && all.count > 0) (json ? list_processes_json : list_processes)(&all, out);
  else if (found)
    complain(
        "no process that this user may read runs on hakmem; start one by: hakmem run -- PROGRAM");
  int code = found && all.count > 0 ? 0 : EXIT_NO_PROGRAM;
  processes_free(&all);
  return code;
}

/* A process, or where `pid` is 0 the core. */
static int show(int pid, const struct core_choice *core, write_format *format) {
  struct remote *remote = calloc(1, sizeof *remote);
  struct snapshot *snapshot = calloc(1, sizeof *snapshot);
  char number[16];
  int code = 1;
  snprintf(number, sizeof number, "%d", pid);
  if (remote == NULL || snapshot == NULL) complain("out of memory");
  else if ((code = pid != 0 ? remote_open(remote, number)
                            : remote_open_core(remote, core->core, &core->places)) == 0 &&
           (code = remote_report(remote, snapshot_take(snapshot, remote))) == 0) {
    stats_sort_heaps(snapshot);
    struct sampled *sampled = sampled_read(snapshot, remote);
    format(snapshot, sampled, remote, stdout);
    free(sampled);
    snapshot_free(snapshot);
  }
  remote_close(remote);
  free(snapshot);
  free(remote);
  return code;
}

int command_stats(int argc, char **argv) {
  struct arguments arguments = {0};
  error_t error = argp_parse(&parser, argc, argv, 0, NULL, &arguments);
  if (error != 0) return EXIT_USAGE;
  write_format *format = find_format(arguments.format);
  if (format == NULL) {
    complain("--format=%s: unknown; accepted: text|json|openmetrics|prometheus", arguments.format);
    return EXIT_USAGE;
  }
  int refused = core_refuse_choice(&arguments.core, &arguments.words);
  if (refused != 0) return refused;
  bool metrics = format == stats_metrics || format == stats_metrics_plain;
  if (core_is_chosen(&arguments.core, &arguments.words)) {
    if (!metrics) return show(0, &arguments.core, format);
    complain("--format=%s: metrics are of a process that lives", arguments.format);
    return EXIT_USAGE;
  }
  if (arguments.words.count == 0 && !metrics) return stats_list(format == stats_json, stdout);
  struct processes found;
  if (arguments.words.count == 0) {
    complain("--format=%s: name a process, by its number or its program's name; of all, hakmem has "
             "lists as text and json",
             arguments.format);
    return EXIT_USAGE;
  }
  int code = processes_find(&found, &arguments.words);
  bool several = found.count > 1;
  if (code == 0 && several && metrics) {
    complain("--format=%s: one process at a time; hakmem serve serves several", arguments.format);
    code = EXIT_USAGE;
  } else if (code == 0 && several && found.one_name && format == stats_text) {
    list_processes(&found, stdout);
    found.count = 0;
  }
  for (size_t i = 0; i < found.count && code == 0; i++) {
    if (i > 0 && format == stats_text) putchar('\n');
    code = show(found.all[i], &arguments.core, format);
  }
  processes_free(&found);
  return code;
}
