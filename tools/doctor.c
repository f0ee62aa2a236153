/* doctor.c - hakmem doctor: does the library really take effect? And hakmem version, which asks the
 * library in the same way.
 *
 * The general check starts this tool itself on the library and looks where its allocation functions
 * come from. A program named by the user is not started: doctor_program.c.
 */
#define _GNU_SOURCE
#include <argp.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"
#include "doctor.h"
#include "hakmem.h"
#include "library.h"
#include "option_table.h"
#include "probe.h"
#include "program.h"
#include "settings.h"

struct arguments {
  char *library;
  char *variant;
  char **program; /* the program and its arguments, NULL-terminated; NULL when none is given */
};

enum { KEY_VARIANT = 1000, KEY_LIBRARY };

static const struct argp_option options[] = {
    {"variant", KEY_VARIANT, "VARIANT", 0, "The library of another build, as for 'hakmem run'", 0},
    {"library", KEY_LIBRARY, "FILE", 0, "Check this library", 0},
    {0},
};

static error_t parse(int key, char *value, struct argp_state *state) {
  struct arguments *arguments = state->input;
  switch (key) {
  case KEY_VARIANT:
    arguments->variant = value;
    return 0;
  case KEY_LIBRARY:
    arguments->library = value;
    return 0;
  case ARGP_KEY_ARGS:
    arguments->program = state->argv + state->next;
    state->next = state->argc;
    return 0;
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

static const struct argp parser = {
    .options = options,
    .parser = parse,
    .args_doc = "[[--] PROGRAM [ARGUMENTS]]",
    .doc =
        "Check that the library takes effect in a child process, and in PROGRAM, which is loaded "
        "but not started.\vIts ARGUMENTS only matter when PROGRAM is env, which starts another "
        "program.\n\n"
        "The exit code is 0 when everything is right, 1 when something is not, 2 when the library "
        "cannot be preloaded, 126 or 127 when the program cannot be run or is not there.",
};

static bool all_right = true;

void doctor_report(const char *verdict, const char *format, ...) {
  if (strcmp(verdict, "FAIL") == 0) all_right = false;
  printf("%-5s ", verdict);
  va_list arguments;
  va_start(arguments, format);
  print_line(stdout, format, arguments);
  va_end(arguments);
}

/* --- the general check ---------------------------------------------------------------------- */

static void check_child(const struct library *library) {
  static struct probe probe;
  if (!probe_run(library, false, &probe)) {
    all_right = false;
    return;
  }
  if (WIFSIGNALED(probe.exit_status)) {
    doctor_report("FAIL", "child process: ended by signal %d (%s)", WTERMSIG(probe.exit_status),
                  strsignal(WTERMSIG(probe.exit_status)));
    return;
  }
  if (probe.version[0] == 0) {
    doctor_report("FAIL", "child process: the library does not load, or is not hakmem");
    return;
  }
  doctor_report("ok", "child process: hakmem %s, %s variant", probe.version, probe.variant);
  if (strcmp(probe.version, HAKMEM_VERSION_STRING) != 0)
    doctor_report("note", "the tool is of another version: %s", HAKMEM_VERSION_STRING);
  if (probe.foreign[0] != 0)
    doctor_report("FAIL", "child process: not from the library:%s", probe.foreign);
  else doctor_report("ok", "child process: malloc and its family come from the library");
  const char *libc = getenv("HAKMEM_FORCE_LIBC_ALLOC");
  if (probe.owns) doctor_report("ok", "child process: blocks lie in the library's memory");
  else if (libc != NULL && strcmp(libc, "1") == 0)
    doctor_report("note", "HAKMEM_FORCE_LIBC_ALLOC=1: the library hands every call on to libc");
  else doctor_report("FAIL", "child process: malloc's blocks do not lie in the library's memory");
}

static void check_environment(void) {
  settings_complain();
  for (size_t i = 0; i < option_count; i++) {
    const char *value = getenv(option_table[i].name);
    if (value != NULL && option_accepts(&option_table[i], value))
      doctor_report("note", "set in the environment: %s=%s", option_table[i].name, value);
  }
  const char *boxes = getenv("HAKMEM_BLACKBOX");
  if (boxes != NULL && boxes[0] != 0 && access(boxes, W_OK | X_OK) != 0)
    doctor_report("note", "HAKMEM_BLACKBOX: nothing can be written to %s as this user: %s", boxes,
                  strerror(errno));
  const char *preload = getenv("LD_PRELOAD");
  if (preload != NULL && preload[0] != 0)
    doctor_report("note", "LD_PRELOAD is set already: %s; the library goes in front", preload);
}

/* --- commands ------------------------------------------------------------------------------- */

int command_doctor(int argc, char **argv) {
  struct arguments arguments = {0};
  if (argp_parse(&parser, argc, argv, ARGP_IN_ORDER, NULL, &arguments) != 0) return EXIT_USAGE;
  static struct library library;
  static struct program program;
  if (!library_locate(LIBRARY_RUN, arguments.library, arguments.variant, &library))
    return EXIT_USAGE;
  if (library.problem != NULL)
    doctor_report("FAIL", "library: %s %s", library.path, library.problem);
  else doctor_report("ok", "library: %s", library.path);
  check_environment();
  check_child(&library);
  if (arguments.program != NULL && arguments.program[0] != NULL) {
    fflush(stdout);
    int code = program_examine(arguments.program, &library, &program);
    if (code != 0) return code;
    if (strcmp(program.path, program.starter) != 0)
      doctor_report("note",
                    program.is_script || program.needs_shell ? "%s is a script; %s runs it"
                                                             : "%s starts %s",
                    program.path, program.starter);
    doctor_check_program(&library, &program);
  }
  return all_right ? 0 : 1;
}

int command_version(int argc, char **argv) {
  static const struct argp no_options = {.doc = "Print the versions of the tool and the library."};
  if (argp_parse(&no_options, argc, argv, 0, NULL, NULL) != 0) return EXIT_USAGE;
  printf("hakmem %s\n", HAKMEM_VERSION_STRING);
  fflush(stdout);
  static struct library library;
  static struct probe probe;
  if (!library_find(LIBRARY_RUN, NULL, NULL, &library) || !probe_run(&library, true, &probe))
    return 1;
  if (probe.version[0] == 0) {
    complain("%s: does not load", library.path);
    return 1;
  }
  printf("library %s (%s), %s\n", probe.version, probe.variant, library.path);
  return 0;
}
