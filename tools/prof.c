/* prof.c - hakmem prof: who allocated what lives in a process, or ever was allocated there. */
#define _GNU_SOURCE
#include <argp.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli.h"
#include "profile.h"
#include "snapshot.h"
#include "stats.h"
#include "symbols.h"

enum view { VIEW_LIVE, VIEW_ALLOCATED, VIEW_GROWTH };

struct arguments {
  char *process, *format;
  enum view view;
  long seconds, sites;
  long long rate; /* -1: stays */
};

/* --- what is shown ------------------------------------------------------------------------------------- */

/* A site with its figures in this view. */
struct row {
  const struct site *site;
  double bytes, blocks;
};

static int by_bytes(const void *a, const void *b) {
  double left = ((const struct row *)a)->bytes, right = ((const struct row *)b)->bytes;
  return left < right ? 1 : left > right ? -1 : 0;
}

/* Those that have something to show, the largest first. `before`: of the first moment, where growth is asked for. */
static struct row *make_rows(const struct profile *profile, const struct profile *before,
                             enum view view, size_t *count) {
  struct row *rows = calloc(profile->site_count + 1, sizeof *rows);
  *count = 0;
  for (size_t i = 0; rows != NULL && i < profile->site_count; i++) {
    const struct site *site = &profile->sites[i];
    struct row row = {site, site->live_bytes, site->live_blocks};
    if (view == VIEW_ALLOCATED)
      row = (struct row){site, site->allocated_bytes, site->allocated_blocks};
    const struct site *was = before != NULL ? profile_site(before, site->place) : NULL;
    if (was != NULL) {
      row.bytes -= was->live_bytes;
      row.blocks -= was->live_blocks;
    }
    if (row.bytes > 0) rows[(*count)++] = row;
  }
  if (rows != NULL) qsort(rows, *count, sizeof *rows, by_bytes);
  return rows;
}

/* --- as a table ---------------------------------------------------------------------------------------- */

enum { NAME_ROOM = 400 };

static char *age_text(uint64_t ms, char text[32]) {
  uint64_t seconds = ms / 1000;
  if (seconds < 120) snprintf(text, 32, "%llu s", (unsigned long long)seconds);
  else if (seconds < 7200) snprintf(text, 32, "%llu min", (unsigned long long)seconds / 60);
  else snprintf(text, 32, "%llu h", (unsigned long long)seconds / 3600);
  return text;
}

static void print_row(const struct row *row, double sum, enum view view, struct symbols *symbols) {
  char bytes[16], age[32], name[NAME_ROOM];
  uint64_t samples =
      view == VIEW_ALLOCATED ? row->site->allocated_samples : row->site->live_samples;
  printf("\n%10s %5.1f%%  about %.0f blocks, %llu samples", stats_bytes(row->bytes, bytes),
         sum > 0 ? 100 * row->bytes / sum : 0, row->blocks, (unsigned long long)samples);
  if (view != VIEW_ALLOCATED) printf(", the oldest %s", age_text(row->site->oldest_ms, age));
  printf("\n");
  for (unsigned i = 0; i < row->site->depth; i++)
    printf("      %s\n", symbols_name(symbols, row->site->addresses[i], false, name, sizeof name));
  if (row->site->depth == 0) printf("      (nobody knows the caller)\n");
}

static const char *const titles[] = {"live", "allocated since the start", "grown"};

static void print_table(const struct profile *profile, const struct snapshot *snapshot,
                        const struct remote *remote, const struct arguments *arguments,
                        const struct row *rows, size_t count, struct symbols *symbols) {
  char covered[16], all[16], rate[16], sum_text[16];
  double sum = 0;
  for (size_t i = 0; i < count; i++) sum += rows[i].bytes;
  printf("covers %s of %s live bytes, by %llu samples (one in %s)\n",
         stats_bytes(profile->live_bytes, covered), stats_bytes((double)snapshot->in_use, all),
         (unsigned long long)profile->live_samples,
         profile->rate > 0 ? stats_bytes((double)profile->rate, rate) : "none: it is off");
  printf("%s (%d): %s %s", remote->program, remote->pid, stats_bytes(sum, sum_text),
         titles[arguments->view]);
  if (arguments->view == VIEW_GROWTH) printf(" in %ld s", arguments->seconds);
  printf(", at %zu places", count);
  if (profile->dropped > 0)
    printf("; %llu samples were dropped, for want of memory", (unsigned long long)profile->dropped);
  if (profile->lost) printf("; it was forked in the middle of a sample, and takes none");
  printf("\n");
  for (size_t i = 0; i < count && i < (size_t)arguments->sites; i++)
    print_row(&rows[i], sum, arguments->view, symbols);
}

/* --- as lines for flame graphs -------------------------------------------------------------------------- */

/* "main;f;g 123": outermost first, bytes. What Brendan Gregg's flamegraph.pl, speedscope and others read. */
static void print_folded(const struct row *rows, size_t count, struct symbols *symbols) {
  char name[NAME_ROOM];
  for (size_t i = 0; i < count; i++) {
    for (unsigned at = rows[i].site->depth; at-- > 0;) {
      symbols_name(symbols, rows[i].site->addresses[at], true, name, sizeof name);
      for (char *c = name; *c != 0; c++)
        if (*c == ';') *c = ':';
      printf("%s%s", name, at > 0 ? ";" : "");
    }
    printf("%s %.0f\n", rows[i].site->depth == 0 ? "(unknown)" : "", rows[i].bytes);
  }
}

/* --- the command ---------------------------------------------------------------------------------------- */

enum { KEY_FORMAT = 1000, KEY_ALLOCATED, KEY_GROWTH, KEY_RATE };

static const struct argp_option options[] = {
    {"format", KEY_FORMAT, "FORMAT", 0, "table (default) or folded: lines for flame graphs", 0},
    {"allocated", KEY_ALLOCATED, NULL, 0, "what was allocated since the start, live or not", 0},
    {"growth", KEY_GROWTH, "SECONDS", 0, "what lives in so many seconds and does not live now", 0},
    {"sites", 'n', "NUMBER", 0, "places in the table (10)", 0},
    {"rate", KEY_RATE, "BYTES", 0, "from now on one sample in so many bytes; 0: none", 0},
    {0},
};

static bool number_of(const char *text, long long most, long long *number) {
  char *end;
  *number = strtoll(text, &end, 10);
  return end != text && *end == 0 && *number >= 0 && *number <= most;
}

static error_t set_number(const char *name, const char *text, long long least, long long most,
                          long long *number) {
  if (number_of(text, most, number) && *number >= least) return 0;
  complain("--%s=%s: accepted: %lld..%lld", name, text, least, most);
  return ARGP_ERR_UNKNOWN;
}

static error_t parse(int key, char *value, struct argp_state *state) {
  struct arguments *arguments = state->input;
  long long number = 0;
  error_t error = 0;
  switch (key) {
  case KEY_FORMAT:
    arguments->format = value;
    return 0;
  case KEY_ALLOCATED:
    arguments->view = VIEW_ALLOCATED;
    return 0;
  case KEY_GROWTH:
    arguments->view = VIEW_GROWTH;
    error = set_number("growth", value, 1, 86400, &number);
    arguments->seconds = (long)number;
    return error;
  case 'n':
    error = set_number("sites", value, 1, 1000000, &number);
    arguments->sites = (long)number;
    return error;
  case KEY_RATE:
    return set_number("rate", value, 0, 1 << 30, &arguments->rate);
  default:
    return take_argument(key, value, &arguments->process);
  }
}

static const struct argp parser = {
    .options = options,
    .parser = parse,
    .args_doc = "PID",
    .doc = "Tell who allocated what lives in a process that runs on hakmem, by the samples that it "
           "keeps from its start "
           "on: one block in 2 MiB, or in HAKMEM_PROF_RATE bytes.",
};

static int wait_and_read(struct profile *before, struct profile *profile,
                         const struct remote *remote, const struct arguments *arguments) {
  int code = profile_read(profile, remote);
  if (code != 0 || arguments->view != VIEW_GROWTH) return code;
  *before = *profile;
  struct timespec time = {.tv_sec = arguments->seconds};
  nanosleep(&time, NULL);
  code = remote_report(remote, remote_look(remote));
  return code == 0 ? profile_read(profile, remote) : code;
}

static int show(const struct remote *remote, const struct arguments *arguments) {
  struct profile profile = {0}, before = {0};
  struct snapshot *snapshot = calloc(1, sizeof *snapshot);
  struct row *rows = NULL;
  size_t count = 0;
  int code = snapshot != NULL ? wait_and_read(&before, &profile, remote, arguments) : 1;
  if (code == 0) code = remote_report(remote, snapshot_take(snapshot, remote));
  if (code == 0) {
    rows = make_rows(&profile, arguments->view == VIEW_GROWTH ? &before : NULL, arguments->view,
                     &count);
    struct symbols *symbols = symbols_open(remote->pid);
    if (arguments->format != NULL && strcmp(arguments->format, "folded") == 0)
      print_folded(rows, count, symbols);
    else print_table(&profile, snapshot, remote, arguments, rows, count, symbols);
    symbols_close(symbols);
    snapshot_free(snapshot);
  }
  free(rows);
  free(snapshot);
  profile_free(&before);
  profile_free(&profile);
  return code;
}

int command_prof(int argc, char **argv) {
  struct arguments arguments = {.sites = 10, .rate = -1};
  error_t error = argp_parse(&parser, argc, argv, 0, NULL, &arguments);
  if (error != 0) return EXIT_USAGE;
  if (arguments.format != NULL && strcmp(arguments.format, "table") != 0 &&
      strcmp(arguments.format, "folded") != 0) {
    complain("--format=%s: unknown; accepted: table|folded", arguments.format);
    return EXIT_USAGE;
  }
  struct remote *remote = calloc(1, sizeof *remote);
  int code = 1;
  if (remote == NULL) complain("out of memory");
  else if ((code = remote_open(remote, arguments.process)) == 0) {
    if (arguments.rate >= 0 &&
        (remote->samples == 0 ||
         !profile_set_rate(remote, arguments.rate > 0 ? arguments.rate : -1))) {
      complain("process %d (%s): its memory cannot be written: try as its user, or as root",
               remote->pid, remote->program);
      code = EXIT_CANNOT_RUN;
    } else {
      code = show(remote, &arguments);
    }
  }
  free(remote);
  return code;
}
