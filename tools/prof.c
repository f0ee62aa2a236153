/* prof.c - hakmem prof: who allocated what lives in a process, or ever was allocated there. */
#define _GNU_SOURCE
#include "prof.h"

#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "pprof.h"
#include "snapshot.h"
#include "stats.h"

/* --- what is shown ------------------------------------------------------------------------------------- */

static const char *const titles[] = {"live", "allocated since the start", "grown", "live"};

static void write_head(const struct report *report, const struct profile *profile,
                       const struct snapshot *snapshot, const struct remote *remote, FILE *out) {
  char covered[16], all[16], rate[16], sum[16];
  const struct prof_order *order = report->order;
  fprintf(out, "covers %s of %s live bytes, by %llu samples (one in %s)\n",
          stats_bytes(profile->live_bytes, covered), stats_bytes((double)snapshot->in_use, all),
          (unsigned long long)profile->live_samples,
          profile->rate > 0 ? stats_bytes((double)profile->rate, rate) : "none: it is off");
  fprintf(out, "%s (%d): %s %s", remote->program, remote->pid, stats_bytes(report->sum, sum),
          titles[order->view]);
  if (order->view == VIEW_GROWTH) fprintf(out, " in %ld s", order->seconds);
  fprintf(out, ", at %zu places", report->count);
  if (order->view == VIEW_LEAKS) fprintf(out, ", of which %u may leak", report->suspects);
  if (profile->dropped > 0)
    fprintf(out, "; %llu samples were dropped, for want of memory",
            (unsigned long long)profile->dropped);
  if (profile->lost) fprintf(out, "; it was forked in the middle of a sample, and takes none");
  fprintf(out, "\n");
}

int prof_write(const struct report *report) {
  const struct prof_order *order = report->order;
  FILE *out = stdout;
  if (order->output != NULL) out = fopen(order->output, "we");
  bool ok = out != NULL;
  if (ok && order->format == FORMAT_PPROF) {
    enum place_value shown = order->view == VIEW_ALLOCATED ? ALLOCATED_BYTES : LIVE_BYTES;
    if (!pprof_write_places(report->places, shown, fileno(out))) return 1;
  } else if (ok && order->format == FORMAT_FOLDED) {
    prof_folded(report, out);
  } else if (ok) {
    prof_table(report, out);
  }
  if (ok && order->output != NULL) {
    ok = ferror(out) == 0;
    ok = fclose(out) == 0 && ok;
  }
  if (!ok) complain("%s: %s", order->output, strerror(errno));
  return ok ? 0 : 1;
}

static int show_places(const struct profile *profile, const struct snapshot *snapshot,
                       const struct remote *remote, const struct prof_order *order) {
  struct places *places = places_make(profile, remote);
  struct report report = {.order = order, .places = places};
  char *head = NULL;
  size_t length;
  int code = 1;
  FILE *text = open_memstream(&head, &length);
  /* What has named all the places may have ended before the last one. */
  if (places == NULL || text == NULL) {
    code = remote_report(remote, remote_look(remote));
    if (code == 0) complain("out of memory");
    if (code == 0) code = 1;
  } else {
    if (order->format != FORMAT_PPROF) places_merge(places);
    if (prof_rows(&report)) {
      write_head(&report, profile, snapshot, remote, text);
      fflush(text);
      report.head = head;
      code = prof_write(&report);
    }
  }
  if (text != NULL) fclose(text);
  free(head);
  free(report.rows);
  places_free(places);
  return code;
}

/* --- the command ---------------------------------------------------------------------------------------- */

static const char *const formats[] = {"table", "folded", "pprof"};

enum { WORDS_MOST = 3 }; /* "diff", and two files */

struct arguments {
  struct prof_order order;
  char *format;
  char *words[WORDS_MOST];
  unsigned word_count;
};

enum { KEY_FORMAT = 1000, KEY_ALLOCATED, KEY_GROWTH, KEY_LEAKS, KEY_RATE };

static const struct argp_option options[] = {
    {"format", KEY_FORMAT, "FORMAT", 0, "table (default), folded: lines for flame graphs, or pprof",
     0},
    {"output", 'o', "FILE", 0, "write there instead of to standard output", 0},
    {"allocated", KEY_ALLOCATED, NULL, 0, "what was allocated since the start, live or not", 0},
    {"growth", KEY_GROWTH, "SECONDS", 0, "what lives in so many seconds and does not live now", 0},
    {"leaks", KEY_LEAKS, NULL, 0, "what lives by age: first what may be leaking", 0},
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

static bool set_format(const char *name, enum prof_format *format) {
  for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
    if (name != NULL && strcmp(name, formats[i]) != 0) continue;
    *format = (enum prof_format)i;
    return true;
  }
  complain("--format=%s: unknown; accepted: table|folded|pprof", name);
  return false;
}

static error_t parse(int key, char *value, struct argp_state *state) {
  struct arguments *arguments = state->input;
  long long number = 0;
  error_t error = 0;
  switch (key) {
  case KEY_FORMAT:
    arguments->format = value;
    return 0;
  case 'o':
    arguments->order.output = value;
    return 0;
  case KEY_ALLOCATED:
    arguments->order.view = VIEW_ALLOCATED;
    return 0;
  case KEY_LEAKS:
    arguments->order.view = VIEW_LEAKS;
    return 0;
  case KEY_GROWTH:
    arguments->order.view = VIEW_GROWTH;
    error = set_number("growth", value, 1, 86400, &number);
    arguments->order.seconds = (long)number;
    return error;
  case 'n':
    error = set_number("sites", value, 1, 1000000, &number);
    arguments->order.sites = (long)number;
    return error;
  case KEY_RATE:
    return set_number("rate", value, 0, 1 << 30, &arguments->order.rate);
  case ARGP_KEY_ARG:
    if (arguments->word_count == WORDS_MOST) return ARGP_ERR_UNKNOWN;
    arguments->words[arguments->word_count++] = value;
    return 0;
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

static const struct argp parser = {
    .options = options,
    .parser = parse,
    .args_doc = "PID\ndiff BEFORE AFTER",
    .doc =
        "Tell who allocated what lives in a process that runs on hakmem, by the samples that it "
        "keeps from its start "
        "on: one block in 2 MiB, or in HAKMEM_PROF_RATE bytes. With diff, tell what AFTER has more "
        "or less than BEFORE: files of --format=pprof.",
};

static int wait_and_read(struct profile *profile, const struct remote *remote,
                         const struct prof_order *order) {
  int code = profile_read(profile, remote);
  if (code != 0 || order->view != VIEW_GROWTH) return code;
  struct profile before = *profile;
  struct timespec time = {.tv_sec = order->seconds};
  nanosleep(&time, NULL);
  code = remote_report(remote, remote_look(remote));
  if (code == 0) code = profile_read(profile, remote);
  if (code == 0) profile_subtract(profile, &before);
  profile_free(&before);
  return code;
}

static int show(const struct remote *remote, const struct prof_order *order) {
  struct profile profile = {0};
  struct snapshot *snapshot = calloc(1, sizeof *snapshot);
  int code = snapshot != NULL ? wait_and_read(&profile, remote, order) : 1;
  if (code == 0) code = remote_report(remote, snapshot_take(snapshot, remote));
  if (code == 0) {
    code = show_places(&profile, snapshot, remote, order);
    snapshot_free(snapshot);
  }
  free(snapshot);
  profile_free(&profile);
  return code;
}

static int look_at_process(const char *text, const struct prof_order *order) {
  struct remote *remote = calloc(1, sizeof *remote);
  int code = 1;
  if (remote == NULL) complain("out of memory");
  else if ((code = remote_open(remote, text)) == 0) {
    if (order->rate >= 0 &&
        (remote->samples == 0 || !profile_set_rate(remote, order->rate > 0 ? order->rate : -1))) {
      complain("process %d (%s): its memory cannot be written: try as its user, or as root",
               remote->pid, remote->program);
      code = EXIT_CANNOT_RUN;
    } else {
      code = show(remote, order);
    }
  }
  free(remote);
  return code;
}

/* False after a complaint. */
static bool makes_sense(const struct prof_order *order) {
  if (order->format != FORMAT_PPROF) return true;
  if (order->view == VIEW_LEAKS)
    complain("--leaks: pprof's format has no ages; accepted with it: table|folded");
  else if (order->output == NULL && isatty(STDOUT_FILENO))
    complain("--format=pprof is nothing for a terminal: name a file, by -o FILE");
  else return true;
  return false;
}

static int diff(const struct arguments *arguments) {
  const struct prof_order *order = &arguments->order;
  if (arguments->word_count != WORDS_MOST)
    complain("diff: name two files, which --format=pprof -o FILE has made");
  else if (order->view == VIEW_GROWTH || order->view == VIEW_LEAKS || order->rate >= 0)
    complain("diff: --growth, --leaks and --rate are for a process");
  else if (order->format == FORMAT_PPROF)
    complain("diff: pprof -diff_base=%s does that; accepted here: --format=table|folded",
             arguments->words[1]);
  else return prof_diff(order, arguments->words[1], arguments->words[2]);
  return EXIT_USAGE;
}

int command_prof(int argc, char **argv) {
  struct arguments arguments = {.order = {.sites = 10, .rate = -1}};
  error_t error = argp_parse(&parser, argc, argv, 0, NULL, &arguments);
  if (error != 0 || !set_format(arguments.format, &arguments.order.format)) return EXIT_USAGE;
  if (arguments.word_count > 0 && strcmp(arguments.words[0], "diff") == 0) return diff(&arguments);
  if (arguments.word_count > 1) {
    complain("one process at a time: '%s' is one word too many", arguments.words[1]);
    return EXIT_USAGE;
  }
  if (!makes_sense(&arguments.order)) return EXIT_USAGE;
  return look_at_process(arguments.words[0], &arguments.order);
}
