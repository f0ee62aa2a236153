/* core_command.c - hakmem core FILE: what ended a process, and what it had in memory. */
#include <argp.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "core_choice.h"
#include "core_end.h"
#include "stats.h"

enum { KEY_FORMAT = 1000, SITES = 5 };

struct arguments {
  char *format, *word;
  struct core_choice core;
};

static const struct argp_option options[] = {
    {"format", KEY_FORMAT, "FORMAT", 0, "text (default) or json", 0},
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
    return take_argument(key, value, &arguments->word);
  }
}

static const struct argp parser = {
    .options = options,
    .parser = parse,
    .children = core_children,
    .args_doc = "FILE",
    .doc = "Show what a core file has: what ended the process, what the address is at which it "
           "failed, "
           "where its memory is, who allocated it, and which threads hold it.",
};

/* Who ended it and where, which needs no hakmem. */
static void look_at_end(struct core_report *report) {
  const struct core *core = report->core;
  core_find_said(core, &report->said);
  if (core->thread_count == 0) return;
  report->call_count =
      symbols_calls(report->symbols, core->threads[0].number, report->calls, CALLS_KEPT);
  if (report->call_count > 0 || core->threads[0].pc == 0) return;
  report->calls[0] = core->threads[0].pc;
  report->call_count = 1;
}

struct parts_of_core {
  struct core_report report;
  struct snapshot snapshot;
  struct profile profile;
  struct report places;
  struct where_reader reader;
};

/* What hakmem knows. What cannot be read is left out, after a complaint. */
static void look_at_memory(struct core_report *report, const struct remote *remote,
                           const struct prof_order *order, struct parts_of_core *parts) {
  report->remote = remote;
  if (snapshot_take(&parts->snapshot, remote) == REMOTE_THERE) {
    report->snapshot = &parts->snapshot;
    stats_sort_heaps(&parts->snapshot);
  }
  if (remote->samples != 0 && profile_read(&parts->profile, remote) == 0 &&
      prof_take(&parts->places, order, remote, &parts->profile) == 0)
    report->places = &parts->places;
  if (!where_open(&parts->reader, remote)) return;
  report->reader = &parts->reader;
  core_find_points(report);
}

static int tell(struct core *core, struct remote *remote, struct parts_of_core *parts,
                bool is_json) {
  struct prof_order order = {.sites = SITES, .rate = -1};
  struct core_report *report = &parts->report;
  report->core = core;
  int code = remote_of_core(remote, core);
  report->symbols = symbols_open(remote_target(remote));
  look_at_end(report);
  if (code == 0) look_at_memory(report, remote, &order, parts);
  (is_json ? core_print_json : core_text)(report, stdout);
  symbols_close(report->symbols);
  if (report->snapshot != NULL) snapshot_free(&parts->snapshot);
  prof_forget(&parts->places);
  profile_free(&parts->profile);
  where_close(&parts->reader);
  return code;
}

int command_core(int argc, char **argv) {
  struct arguments arguments = {0};
  bool is_json;
  if (argp_parse(&parser, argc, argv, 0, NULL, &arguments) != 0) return EXIT_USAGE;
  if (!take_text_or_json(arguments.format, &is_json)) return EXIT_USAGE;
  if (arguments.core.core == NULL) arguments.core.core = arguments.word;
  else if (arguments.word != NULL) arguments.core.core = NULL;
  if (arguments.core.core == NULL) {
    complain("name one core file");
    return EXIT_USAGE;
  }
  struct core *core = NULL;
  struct remote *remote = calloc(1, sizeof *remote);
  struct parts_of_core *parts = calloc(1, sizeof *parts);
  int code = 1;
  if (remote == NULL || parts == NULL) complain("out of memory");
  else if ((code = core_open(&core, arguments.core.core, &arguments.core.places)) == 0)
    code = tell(core, remote, parts, is_json);
  remote_close(remote);
  free(parts);
  free(remote);
  return code;
}
