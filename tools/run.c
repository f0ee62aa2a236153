/* run.c - hakmem run: executes a program with the library preloaded. */
#define _GNU_SOURCE
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "library.h"
#include "option_table.h"
#include "program.h"

struct arguments {
  const char *profile;
  const char *variant;
  const char *library;
  const char *stats; /* NULL or a value of HAKMEM_STATS */
  bool bare_stats;   /* given without one */
  bool check_copies;
  char **program; /* the program and its arguments, NULL-terminated */
};

enum { KEY_STATS = 1000, KEY_VARIANT, KEY_LIBRARY, KEY_COPIES };

static const struct argp_option options[] = {
    {"profile", 'p', "PROFILE", 0, "speed, balanced or lean (sets HAKMEM_PROFILE)", 0},
    {"stats", KEY_STATS, "FORMAT", OPTION_ARG_OPTIONAL,
     "Print statistics at exit: text (default, ten lines), all or json (sets HAKMEM_STATS)", 0},
    {"variant", KEY_VARIANT, "VARIANT", 0,
     "The library of another build: in a source tree standard, fast, observe, hardened or check; "
     "elsewhere those that 'make VARIANT=... install' or a package has put beside it (hardened)",
     0},
    {"library", KEY_LIBRARY, "FILE", 0, "Preload this library", 0},
    {"check-copies", KEY_COPIES, NULL, 0,
     "With the hardened library: check that memcpy and its family stay inside their blocks", 0},
    {0},
};

static error_t parse(int key, char *value, struct argp_state *state) {
  struct arguments *arguments = state->input;
  switch (key) {
  case 'p':
    if (profile_find(value) < 0)
      argp_failure(state, EXIT_USAGE, 0, "--profile %s: unknown; accepted: %s", value,
                   option_find("HAKMEM_PROFILE")->accepted);
    arguments->profile = value;
    return 0;
  case KEY_STATS:
    arguments->stats = value != NULL ? value : "text";
    arguments->bare_stats = value == NULL;
    if (!option_accepts(option_find("HAKMEM_STATS"), arguments->stats))
      argp_failure(state, EXIT_USAGE, 0, "--stats=%s: unknown; accepted: %s", value,
                   option_find("HAKMEM_STATS")->accepted);
    return 0;
  case KEY_VARIANT:
    arguments->variant = value;
    return 0;
  case KEY_LIBRARY:
    arguments->library = value;
    return 0;
  case KEY_COPIES:
    arguments->check_copies = true;
    return 0;
  case ARGP_KEY_ARGS:
    arguments->program = state->argv + state->next;
    state->next = state->argc;
    return 0;
  case ARGP_KEY_NO_ARGS:
    argp_error(state, "no program given");
    return EINVAL;
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

static const struct argp parser = {
    .options = options,
    .parser = parse,
    .args_doc = "[--] PROGRAM [ARGUMENTS]",
    .doc =
        "Run PROGRAM with hakmem in place of its memory allocator.\v"
        "The exit code is the program's own; 2 for a mistake in the arguments or when the library "
        "is missing, 126 when the program cannot be run on hakmem, 127 when there is no such "
        "program. The environment is passed on; 'hakmem options' lists the HAKMEM_* variables.",
};

int command_run(int argc, char **argv) {
  struct arguments arguments = {0};
  /* In order: what follows the program's name is the program's. */
  if (argp_parse(&parser, argc, argv, ARGP_IN_ORDER, NULL, &arguments) != 0) return EXIT_USAGE;
  static struct library library, copies;
  static struct program program;
  if (!library_find(LIBRARY_RUN, arguments.library, arguments.variant, &library)) return EXIT_USAGE;
  if (arguments.check_copies && !library_find_copies(&library, &copies)) return EXIT_USAGE;
  int code = program_examine(arguments.program, &library, &program);
  if (code == EXIT_NO_PROGRAM && arguments.bare_stats &&
      option_accepts(option_find("HAKMEM_STATS"), arguments.program[0]))
    complain("write the format behind =: --stats=%s", arguments.program[0]);
  if (code == 0) code = program_refuse_own_malloc(&program);
  if (code != 0) return code;
  if (arguments.check_copies && !library_set_preload(&copies)) return EXIT_USAGE;
  if (!library_set_preload(&library)) return EXIT_USAGE;
  if ((arguments.profile != NULL && setenv("HAKMEM_PROFILE", arguments.profile, 1) != 0) ||
      (arguments.stats != NULL && setenv("HAKMEM_STATS", arguments.stats, 1) != 0)) {
    complain("%s", strerror(errno));
    return EXIT_USAGE;
  }
  return program_execute(&program, arguments.program);
}
