/* prof.c - hakmem prof: who allocated what lives in a process, or ever was allocated there. */
#define _GNU_SOURCE
#include "prof.h"

#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "core_choice.h"
#include "option_table.h"
#include "pprof.h"
#include "processes.h"
#include "prof_group.h"

/* --- the command ---------------------------------------------------------------------------------------- */

static const char *const formats[] = {"table", "json", "folded", "pprof", "html"};

enum { WORDS_OF_DIFF = 3 }; /* "diff" and two files */

struct arguments {
  struct prof_order order;
  char *format, *output;
  struct prof_output file; /* it, open */
  struct words words;
  struct core_choice core;
  char **program; /* and its arguments; NULL: a process, or files */
};

enum { KEY_FORMAT = 1000, KEY_ALLOCATED, KEY_GROWTH, KEY_LEAKS, KEY_PEAK, KEY_RATE, KEY_BY };

static const struct argp_option options[] = {
    {"format", KEY_FORMAT, "FORMAT", 0,
     "table (default), json, html: a flame graph, folded: lines for one, or pprof", 0},
    {"by", KEY_BY, "KEY", 0, "stacks (default), function, file, library, thread, size or age", 0},
    {"output", 'o', "FILE", 0, "write there instead of to standard output", 0},
    {"allocated", KEY_ALLOCATED, NULL, 0, "what was allocated since the start, live or not", 0},
    {"growth", KEY_GROWTH, "SECONDS", 0,
     "blocks allocated during the next SECONDS that are still live at their end", 0},
    {"leaks", KEY_LEAKS, NULL, 0, "what lives by age: first what may be leaking", 0},
    {"peak", KEY_PEAK, NULL, 0, "what lived when live memory was highest", 0},
    {"sites", 'n', "NUMBER", 0, "places or groups in the table (10)", 0},
    {"rate", KEY_RATE, "BYTES", 0,
     "from now on sample one block in BYTES bytes, as 65536 or 64K; 0: none", 0},
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
  return EINVAL;
}

static error_t set_rate(const char *text, long long *rate) {
  enum { MOST = 1 << 30 };
  if (size_parse(text, rate) && *rate <= MOST) return 0;
  complain("--rate=%s: accepted: 0..%d, or with K, M or G", text, MOST);
  return EINVAL;
}

static error_t set_view(struct prof_order *order, enum prof_view view) {
  if (order->view != VIEW_LIVE && order->view != view) {
    complain("--allocated, --growth, --leaks and --peak exclude each other");
    return EINVAL;
  }
  order->view = view;
  return 0;
}

static bool set_format(const char *name, enum prof_format *format) {
  for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
    if (name != NULL && strcmp(name, formats[i]) != 0) continue;
    *format = (enum prof_format)i;
    return true;
  }
  complain("--format=%s: unknown; accepted: table|json|folded|pprof|html", name);
  return false;
}

static error_t parse(int key, char *value, struct argp_state *state) {
  struct arguments *arguments = state->input;
  long long number = 0;
  error_t error = 0;
  switch (key) {
  case ARGP_KEY_INIT:
    state->child_inputs[0] = &arguments->core;
    return 0;
  case KEY_FORMAT:
    arguments->format = value;
    return 0;
  case 'o':
    arguments->output = value;
    return 0;
  case KEY_ALLOCATED:
    return set_view(&arguments->order, VIEW_ALLOCATED);
  case KEY_LEAKS:
    return set_view(&arguments->order, VIEW_LEAKS);
  case KEY_PEAK:
    return set_view(&arguments->order, VIEW_PEAK);
  case KEY_GROWTH:
    error = set_number("growth", value, 1, 86400, &number);
    arguments->order.seconds = (long)number;
    return error != 0 ? error : set_view(&arguments->order, VIEW_GROWTH);
  case 'n':
    error = set_number("sites", value, 1, 1000000, &number);
    arguments->order.sites = (long)number;
    return error;
  case KEY_BY:
    return prof_by(value, &arguments->order.by) ? 0 : EINVAL;
  case KEY_RATE:
    return set_rate(value, &arguments->order.rate);
  default:
    return take_words(key, state, &arguments->words);
  }
}

static const struct argp parser = {
    .options = options,
    .parser = parse,
    .children = core_children,
    .args_doc = "PID|NAME\nFILE\n-- PROGRAM [ARGUMENTS]\ndiff BEFORE AFTER",
    .doc =
        "Show who allocated what lives in a process that runs on hakmem, by the samples that it "
        "keeps from its start "
        "on: one block in 2 MiB, or in HAKMEM_PROF_RATE bytes. With --, run PROGRAM on hakmem and "
        "show it when it ends, or at SIGINT. With diff, show what AFTER has more "
        "or less than BEFORE: files of --format=pprof. FILE is a core file.",
};

static int wait_and_read(struct profile *profile, struct remote *remote,
                         const struct prof_order *order) {
  int code = profile_read(profile, remote);
  if (code != 0 || order->view != VIEW_GROWTH) return code;
  struct profile before = *profile;
  *profile = (struct profile){0}; /* what it had is the other one's now */
  struct timespec time = {.tv_sec = order->seconds};
  nanosleep(&time, NULL);
  code = remote_report(remote, remote_look_on(remote));
  if (code == 0) code = profile_read(profile, remote);
  if (code == 0) profile_subtract(profile, &before);
  profile_free(&before);
  return code;
}

static int show(struct remote *remote, const struct prof_order *order) {
  struct profile profile = {0};
  struct report report = {0};
  int code = wait_and_read(&profile, remote, order);
  if (code == 0 && order->view == VIEW_PEAK) profile_at_peak(&profile);
  if (code == 0) code = prof_take(&report, order, remote, &profile);
  if (code == 0) code = prof_write(&report);
  prof_forget(&report);
  profile_free(&profile);
  return code;
}

static int look_at_process(struct arguments *arguments) {
  const struct prof_order *order = &arguments->order;
  struct remote *remote = calloc(1, sizeof *remote);
  if (remote == NULL) {
    complain("out of memory");
    return 1;
  }
  int code = remote_open_chosen(remote, &arguments->core, &arguments->words);
  if (code == 0 && remote->core != NULL && (order->view == VIEW_GROWTH || order->rate >= 0)) {
    complain("--growth and --rate are for a process that lives, not for a core file");
    code = EXIT_USAGE;
  }
  /* Where it cannot be read, or has no sampler, show() says so. */
  if (code == 0 && order->rate >= 0 && !remote->shared && remote->samples != 0 &&
      !profile_set_rate(remote, order->rate > 0 ? order->rate : -1)) {
    code = remote_report(remote, remote_look(remote));
    if (code == 0) code = EXIT_CANNOT_RUN;
    if (code == EXIT_CANNOT_RUN)
      complain("process %d (%s): its memory cannot be written: try as its user, or as root",
               remote->pid, remote->program);
  }
  if (code == 0) code = show(remote, order);
  remote_close(remote);
  free(remote);
  return code;
}

/* False after a complaint. */
static bool makes_sense(const struct arguments *arguments) {
  const struct prof_order *order = &arguments->order;
  const char *by = prof_by_name(order->by);
  if (order->by != BY_STACKS && order->format != FORMAT_TABLE && order->format != FORMAT_JSON) {
    complain("--by=%s: --format=%s shows stacks; accepted with it: table|json", by,
             formats[order->format]);
    return false;
  }
  if (order->by != BY_STACKS && order->view == VIEW_LEAKS) {
    complain("--by=%s: --leaks judges stacks; accepted with it: --allocated, --growth and --peak",
             by);
    return false;
  }
  if (prof_by_is_of_samples(order->by) && order->view != VIEW_LIVE) {
    complain("--by=%s: it is known only of live blocks; with --allocated, --growth and --peak "
             "accepted: stacks|function|file|library",
             by);
    return false;
  }
  if (order->format == FORMAT_JSON && order->view == VIEW_LEAKS) {
    complain("--leaks: not as JSON; accepted with it: table|folded|html");
    return false;
  }
  if (order->format != FORMAT_PPROF) return true;
  if (order->view == VIEW_LEAKS)
    complain("--leaks: pprof's format has no ages; accepted with it: table|folded|html");
  else if (!pprof_is_built())
    complain("--format=pprof: this hakmem was built without libprotobuf-c and zlib");
  else if (arguments->output == NULL && isatty(STDOUT_FILENO))
    complain("--format=pprof is nothing for a terminal: name a file, by -o FILE");
  else return true;
  return false;
}

/* 0: its arguments make sense; else an exit code after a complaint. */
static int refuse_diff(const struct arguments *arguments) {
  const struct prof_order *order = &arguments->order;
  if (arguments->words.count != WORDS_OF_DIFF)
    complain("diff: name two files that --format=pprof -o FILE has made");
  else if (order->view == VIEW_GROWTH || order->view == VIEW_LEAKS || order->view == VIEW_PEAK ||
           order->rate >= 0)
    complain("diff: --growth, --leaks, --peak and --rate are for a process");
  else if (order->by != BY_STACKS) complain("diff: --by is for a process or a core file");
  else if (order->format == FORMAT_HTML || order->format == FORMAT_JSON)
    complain("diff: --format=%s shows no difference yet; accepted here: --format=table|folded",
             formats[order->format]);
  else if (order->format == FORMAT_PPROF)
    complain("diff: pprof -diff_base=%s does that; accepted here: --format=table|folded",
             arguments->words.all[1]);
  else return 0;
  return EXIT_USAGE;
}

/* What it looks at: files, a program, or a process. */
static int look(struct arguments *arguments, bool files) {
  struct prof_order *order = &arguments->order;
  if (arguments->output != NULL) {
    if (!prof_open(&arguments->file, arguments->output)) return EXIT_USAGE;
    order->output = &arguments->file;
  }
  int code;
  if (arguments->program != NULL) {
    code = prof_program(order, arguments->program);
  } else {
    fill_standard_descriptors();
    code = files ? prof_diff(order, arguments->words.all[1], arguments->words.all[2])
                 : look_at_process(arguments);
  }
  prof_close(order->output);
  return code;
}

int command_prof(int argc, char **argv) {
  struct arguments arguments = {.order = {.sites = 10, .rate = -1}};
  /* argp does not tell what stood before and what behind it. */
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--") != 0) continue;
    arguments.program = argv + i + 1;
    arguments.order.program = true;
    argv[i] = NULL;
    argc = i;
  }
  error_t error = argp_parse(&parser, argc, argv, 0, NULL, &arguments);
  if (error != 0 || !set_format(arguments.format, &arguments.order.format)) return EXIT_USAGE;
  if (arguments.program != NULL && arguments.program[0] == NULL) {
    complain("no program given behind --");
    return EXIT_USAGE;
  }
  if (arguments.program != NULL && arguments.words.count > 0) {
    complain("either a process or a program: '%s' stands before --", arguments.words.all[0]);
    return EXIT_USAGE;
  }
  if (arguments.words.count > 0 && strcmp(arguments.words.all[0], "diff") == 0) {
    int code = refuse_diff(&arguments);
    return code != 0 ? code : look(&arguments, true);
  }
  return makes_sense(&arguments) ? look(&arguments, false) : EXIT_USAGE;
}
