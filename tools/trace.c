/* trace.c - hakmem trace: records what a program allocates. */
#define _GNU_SOURCE
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "library.h"
#include "program.h"
#include "trace_record.h"

struct arguments {
  const char *output;
  const char *library;
  bool force;
  bool follow;
  char **program; /* the program and its arguments, NULL-terminated */
};

enum { KEY_LIBRARY = 1000, KEY_FOLLOW };

static const struct argp_option options[] = {
    {"output", 'o', "FILE", 0, "Write the trace to FILE", 0},
    {"force", 'f', NULL, 0, "Overwrite FILE if it exists", 0},
    {"follow", KEY_FOLLOW, NULL, 0,
     "Record the processes that PROGRAM starts as well, each to a file of its own: app.1234.htrace "
     "beside app.htrace",
     0},
    {"library", KEY_LIBRARY, "FILE", 0, "Preload this library, a libhakmem-trace.so", 0},
    {0},
};

static error_t parse(int key, char *value, struct argp_state *state) {
  struct arguments *arguments = state->input;
  switch (key) {
  case 'o':
    if (value[0] == 0) argp_failure(state, EXIT_USAGE, 0, "--output: no name of a file");
    if (strcmp(value, "-") == 0)
      argp_failure(state, EXIT_USAGE, 0,
                   "--output -: a trace is written to a regular file, not to standard output; "
                   "./- is a file of that name");
    arguments->output = value;
    return 0;
  case 'f':
    arguments->force = true;
    return 0;
  case KEY_FOLLOW:
    arguments->follow = true;
    return 0;
  case KEY_LIBRARY:
    arguments->library = value;
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
    .doc = "Run PROGRAM on hakmem and write every allocation, reallocation and free of its threads "
           "to a file, for hakmem-lab replay and hakmem-lab trace-info.\v"
           "Recorded is the process that PROGRAM is started in; processes that it starts run on "
           "hakmem and are not recorded without --follow. A program that is killed leaves a "
           "complete trace.\n\n"
           "The exit code is the program's own; 2 for a mistake in the arguments or when the "
           "library is missing, 126 when the program cannot be run on hakmem, 127 when there is no "
           "such program; 1 when the trace could not be written and the program ended with 0.",
};

static int record(int argc, char **argv) {
  struct arguments arguments = {0};
  if (argp_parse(&parser, argc, argv, ARGP_IN_ORDER, NULL, &arguments) != 0) return EXIT_USAGE;
  if (arguments.output == NULL) {
    complain("no file given for the trace: -o FILE");
    return EXIT_USAGE;
  }
  static struct library library;
  static struct program program;
  if (!library_find(LIBRARY_TRACE, arguments.library, NULL, &library)) return EXIT_USAGE;
  int code = program_find(arguments.program[0], &library, &program);
  if (code != 0) return code;
  struct trace_order order = {
      .library = &library,
      .program = &program,
      .argv = arguments.program,
      .output = arguments.output,
      .force = arguments.force,
      .follow = arguments.follow,
  };
  return trace_record(&order);
}

int command_trace(int argc, char **argv) {
  static char name[] = "hakmem trace record";
  bool help = argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-?") == 0);
  if (!help && (argc < 2 || strcmp(argv[1], "record") != 0)) {
    if (argc < 2) complain("what? usage: hakmem trace record -o FILE [--] PROGRAM [ARGUMENTS]");
    else complain("%s: unknown; there is: record", argv[1]);
    return EXIT_USAGE;
  }
  argv[help ? 0 : 1] = name;
  program_invocation_name = name;
  program_invocation_short_name = name;
  set_command_name("trace record");
  return help ? record(argc, argv) : record(argc - 1, argv + 1);
}
