/* explain.c - hakmem explain PID: why memory of a running process does not come back. */
#include "explain.h"

#include <argp.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "symbols.h"

struct arguments {
  char *format, *process;
};

enum { KEY_FORMAT = 1000 };

static const struct argp_option options[] = {
    {"format", KEY_FORMAT, "FORMAT", 0, "text (default) or json", 0},
    {0},
};

static error_t parse(int key, char *value, struct argp_state *state) {
  struct arguments *arguments = state->input;
  if (key != KEY_FORMAT) return take_argument(key, value, &arguments->process);
  arguments->format = value;
  return 0;
}

static const struct argp parser = {
    .options = options,
    .parser = parse,
    .args_doc = "PID",
    .doc = "Tell why memory of a process that runs on hakmem does not come back: the reasons with "
           "figures, the largest first, and what would help. The process is only read.",
};

static int explain(const struct remote *remote, bool json, struct snapshot *snapshot,
                   struct explanation *explanation) {
  struct profile profile;
  int code = remote_report(remote, snapshot_take_closely(snapshot, remote));
  if (code != 0) return code;
  bool sampled = profile_look(&profile, remote) == NULL;
  explain_find(explanation, snapshot, sampled ? &profile : NULL, remote);
  struct symbols *symbols = symbols_open(remote->task);
  (json ? explain_json : explain_text)(explanation, remote, symbols, stdout);
  symbols_close(symbols);
  if (sampled) profile_free(&profile);
  snapshot_free(snapshot);
  return 0;
}

int command_explain(int argc, char **argv) {
  struct arguments arguments = {0};
  if (argp_parse(&parser, argc, argv, 0, NULL, &arguments) != 0) return EXIT_USAGE;
  bool json = arguments.format != NULL && strcmp(arguments.format, "json") == 0;
  if (arguments.format != NULL && !json && strcmp(arguments.format, "text") != 0) {
    complain("--format=%s: unknown; accepted: text|json", arguments.format);
    return EXIT_USAGE;
  }
  struct remote *remote = calloc(1, sizeof *remote);
  struct snapshot *snapshot = calloc(1, sizeof *snapshot);
  struct explanation *explanation = calloc(1, sizeof *explanation);
  int code = 1;
  if (remote == NULL || snapshot == NULL || explanation == NULL) complain("out of memory");
  else if ((code = remote_open(remote, arguments.process)) == 0) {
    if (remote->shared) {
      complain("process %d (%s): may not be read: try as its user, or as root", remote->pid,
               remote->program);
      code = EXIT_CANNOT_RUN;
    } else {
      code = explain(remote, json, snapshot, explanation);
    }
  }
  free(explanation);
  free(snapshot);
  free(remote);
  return code;
}
