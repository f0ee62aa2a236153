/* explain.c - hakmem explain PID: why memory of a running process does not come back. */
#include "explain.h"

#include <argp.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "core_choice.h"
#include "processes.h"
#include "stats.h"
#include "symbols.h"

struct arguments {
  char *format;
  struct words words;
  struct core_choice core;
  bool json, trim;
};

enum { KEY_FORMAT = 1000, KEY_TRIM, TRIM_SECONDS = 5 };

static const struct argp_option options[] = {
    {"format", KEY_FORMAT, "FORMAT", 0, "text (default) or json", 0},
    {"trim", KEY_TRIM, NULL, 0, "also have it give back what it can, and print how much that was",
     0},
    {0},
};

static error_t parse(int key, char *value, struct argp_state *state) {
  struct arguments *arguments = state->input;
  if (key == ARGP_KEY_INIT) {
    state->child_inputs[0] = &arguments->core;
    return 0;
  }
  if (key == KEY_TRIM) {
    arguments->trim = true;
    return 0;
  }
  if (key != KEY_FORMAT) return take_words(key, state, &arguments->words);
  arguments->format = value;
  return 0;
}

static const struct argp parser = {
    .options = options,
    .parser = parse,
    .children = core_children,
    .args_doc = "PID|NAME\nFILE",
    .doc = "Say why memory of a process that runs on hakmem does not come back: the reasons with "
           "figures, the largest first, and what would help. The process is only read; with --trim "
           "its threads are stopped "
           "for a moment, and one of its next calls of malloc gives back what it can. FILE is a "
           "core file.",
};

/* What is there afterwards. */
static int look_again(struct trim *trim, const struct remote *remote) {
  struct snapshot *after = calloc(1, sizeof *after);
  if (after == NULL) {
    complain("out of memory");
    return 1;
  }
  int code = remote_report(remote, snapshot_take(after, remote));
  if (code == 0) {
    trim->after = after->resident;
    stats_equation(after, trim->equation, sizeof trim->equation);
    snapshot_free(after);
  }
  free(after);
  return code;
}

static int explain(const struct remote *remote, const struct arguments *arguments,
                   struct snapshot *snapshot, struct explanation *explanation) {
  struct profile profile;
  struct trim trim = {0};
  int code = remote_report(remote, snapshot_take_closely(snapshot, remote));
  if (code != 0) return code;
  bool read = profile_look(&profile, remote) == NULL;
  struct sampled *sampled = read ? calloc(1, sizeof *sampled) : NULL;
  bool known = sampled != NULL && sampled_find(sampled, snapshot, &profile, remote);
  if (explain_find(explanation, snapshot, read ? &profile : NULL, remote) &&
      explain_rounding(explanation, known && sampled->known ? sampled : NULL, remote)) {
    struct symbols *symbols = symbols_open(remote_target(remote));
    if (arguments->trim) {
      code = explain_trim(&trim, remote, TRIM_SECONDS);
      if (code == 0 && trim.done) code = look_again(&trim, remote);
      if (code == 0) explanation->trimmed = &trim;
    }
    (arguments->json ? explain_json : explain_text)(explanation, remote, symbols, stdout);
    for (const struct unread *unread = symbols_unread(symbols); unread != NULL;
         unread = unread->next)
      complain("note: %s", unread->why);
    if (explanation->trimmed != NULL && !trim.done) code = 1;
    symbols_close(symbols);
  } else {
    complain("out of memory");
    code = 1;
  }
  if (read) profile_free(&profile);
  free(sampled);
  snapshot_free(snapshot);
  return code;
}

int command_explain(int argc, char **argv) {
  struct arguments arguments = {0};
  if (argp_parse(&parser, argc, argv, 0, NULL, &arguments) != 0) return EXIT_USAGE;
  if (!take_text_or_json(arguments.format, &arguments.json)) return EXIT_USAGE;
  struct remote *remote = calloc(1, sizeof *remote);
  struct snapshot *snapshot = calloc(1, sizeof *snapshot);
  struct explanation *explanation = calloc(1, sizeof *explanation);
  int code = 1;
  if (remote == NULL || snapshot == NULL || explanation == NULL) complain("out of memory");
  else if ((code = remote_open_chosen(remote, &arguments.core, &arguments.words)) == 0) {
    if (remote->core != NULL && arguments.trim) {
      complain("--trim: a core file gives nothing back");
      code = EXIT_USAGE;
    } else if (remote->shared) {
      complain("process %d (%s): may not be read: try as its user, or as root", remote->pid,
               remote->program);
      code = EXIT_CANNOT_RUN;
    } else {
      code = explain(remote, &arguments, snapshot, explanation);
    }
  }
  free(explanation);
  free(snapshot);
  remote_close(remote);
  free(remote);
  return code;
}
