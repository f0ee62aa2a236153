/* doctor.c - hakmem doctor: does the library really take effect? And hakmem version, which asks the
 * library in the same way.
 *
 * The general check starts this tool itself on the library and looks where its allocation functions
 * come from. A program named by the user is not started: its dynamic linker is asked to load it and
 * to report which malloc each of its libraries binds to.
 */
#define _GNU_SOURCE
#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"
#include "hakmem.h"
#include "library.h"
#include "option_table.h"
#include "probe.h"
#include "program.h"
#include "settings.h"

struct arguments {
  char *library;
  char *variant;
  char *program;
};

enum { KEY_VARIANT = 1000, KEY_LIBRARY };

static const struct argp_option options[] = {
    {"variant", KEY_VARIANT, "VARIANT", 0, "In a build tree: the library of build/VARIANT", 0},
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
  case ARGP_KEY_ARG:
    if (arguments->program == NULL)
      arguments->program = value; /* its own arguments do not matter: it is not started */
    return 0;
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

static const struct argp parser = {
    .options = options,
    .parser = parse,
    .args_doc = "[[--] PROGRAM]",
    .doc =
        "Check that the library takes effect in a child process, and in PROGRAM, which is loaded "
        "but not started.\vThe exit code is 0 when everything is right, 1 when something is not.",
};

static bool all_right;

static void __attribute__((format(printf, 2, 3)))
report(const char *verdict, const char *format, ...) {
  if (strcmp(verdict, "FAIL") == 0) all_right = false;
  printf("%-5s ", verdict);
  va_list arguments;
  va_start(arguments, format);
  vprintf(format, arguments);
  va_end(arguments);
  putchar('\n');
}

/* --- the general check ---------------------------------------------------------------------- */

static void check_child(const struct library *library) {
  static struct probe probe;
  if (!probe_run(library, false, &probe)) {
    all_right = false;
    return;
  }
  if (WIFSIGNALED(probe.exit_status)) {
    report("FAIL", "child process: ended by signal %d (%s)", WTERMSIG(probe.exit_status),
           strsignal(WTERMSIG(probe.exit_status)));
    return;
  }
  if (probe.version[0] == 0) {
    report("FAIL", "child process: the library does not load, or is not hakmem");
    return;
  }
  report("ok", "child process: hakmem %s, %s variant", probe.version, probe.variant);
  if (strcmp(probe.version, HAKMEM_VERSION_STRING) != 0)
    report("note", "the tool is of another version: %s", HAKMEM_VERSION_STRING);
  if (probe.foreign[0] != 0)
    report("FAIL", "child process: not from the library:%s", probe.foreign);
  else report("ok", "child process: malloc and its family come from the library");
  const char *libc = getenv("HAKMEM_FORCE_LIBC_ALLOC");
  if (probe.owns) report("ok", "child process: blocks lie in the library's memory");
  else if (libc != NULL && strcmp(libc, "1") == 0)
    report("note", "HAKMEM_FORCE_LIBC_ALLOC=1: the library hands every call on to libc");
  else report("FAIL", "child process: malloc's blocks do not lie in the library's memory");
}

static void check_environment(void) {
  settings_complain();
  for (size_t i = 0; i < option_count; i++) {
    const char *value = getenv(option_table[i].name);
    if (value != NULL && option_accepts(&option_table[i], value))
      report("note", "set in the environment: %s=%s", option_table[i].name, value);
  }
  const char *preload = getenv("LD_PRELOAD");
  if (preload != NULL && preload[0] != 0)
    report("note", "LD_PRELOAD is set already: %s; the library goes in front", preload);
}

/* --- a program ------------------------------------------------------------------------------ */

/* The name between ` and ' of a line of the dynamic linker is malloc. */
static bool is_malloc_binding(const char *line) { return strstr(line, " symbol `malloc'") != NULL; }

/* "binding file A [0] to B [0]: ...": cuts the line into A and B. */
static bool split_binding(char *line, char **from, char **to) {
  char *start = strstr(line, "binding file ");
  if (start == NULL) return false;
  *from = start + strlen("binding file ");
  char *from_end = strstr(*from, " [");
  char *to_start = strstr(*from, "] to ");
  if (from_end == NULL || to_start == NULL) return false;
  *to = to_start + strlen("] to ");
  char *to_end = strstr(*to, " [");
  if (to_end == NULL) return false;
  *from_end = 0;
  *to_end = 0;
  return true;
}

/* The dynamic linker in its listing mode (as ldd -r): loads and binds everything, starts nothing. */
static _Noreturn void be_listing(const struct library *library, const struct program *program,
                                 int out) {
  static char path[PATH_MAX];
  static char linker[PATH_MAX];
  memcpy(path, program->starter, sizeof path);
  memcpy(linker, program->dynamic_linker, sizeof linker);
  char *arguments[] = {linker, path, NULL};
  int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
  dup2(null, STDOUT_FILENO);
  dup2(out, STDERR_FILENO);
  unsetenv("LD_DEBUG_OUTPUT");
  if (setenv("LD_TRACE_LOADED_OBJECTS", "1", 1) == 0 && setenv("LD_WARN", "yes", 1) == 0 &&
      setenv("LD_BIND_NOW", "yes", 1) == 0 && setenv("LD_DEBUG", "bindings", 1) == 0 &&
      library_set_preload(library))
    execv(linker, arguments);
  _exit(EXIT_CANNOT_RUN);
}

static bool is_glibc_linker(const char *path) {
  const char *slash = strrchr(path, '/');
  const char *name = slash != NULL ? slash + 1 : path;
  return strncmp(name, "ld-linux", 8) == 0 || strncmp(name, "ld64.so", 7) == 0 ||
         strncmp(name, "ld.so", 5) == 0;
}

/* One line of the listing: `from` takes malloc from `to`. */
struct binding {
  struct binding *next;
  char *from;
  char *to;
};

/* Reads the listing; NULL also when there is no binding of malloc in it. */
static struct binding *read_bindings(FILE *in) {
  struct binding *list = NULL;
  char *line = NULL;
  size_t size = 0;
  while (getline(&line, &size, in) >= 0) {
    char *from;
    char *to;
    if (!is_malloc_binding(line) || !split_binding(line, &from, &to)) continue;
    struct binding *binding = malloc(sizeof *binding);
    if (binding == NULL) break;
    *binding = (struct binding){.next = list, .from = strdup(from), .to = strdup(to)};
    list = binding;
    if (binding->from == NULL || binding->to == NULL) break;
  }
  free(line);
  return list;
}

/* A program at a fixed address stands in for the functions whose address it takes: its libraries then
 * bind to the program, and reach the library through it. */
static bool binds_to(const struct binding *list, const char *from, const char *to) {
  for (; list != NULL; list = list->next)
    if (strcmp(list->from, from) == 0 && strcmp(list->to, to) == 0) return true;
  return false;
}

static void report_bindings(const struct library *library, const struct program *program,
                            const struct binding *list) {
  int bound = 0;
  int elsewhere = 0;
  for (const struct binding *binding = list; binding != NULL; binding = binding->next) {
    if (strcmp(binding->from, library->path) == 0) continue;
    if (strcmp(binding->to, library->path) == 0 || binds_to(list, binding->to, library->path)) {
      bound++;
    } else {
      elsewhere++;
      report("FAIL", "%s: %s takes malloc from %s", program->starter, binding->from, binding->to);
    }
  }
  if (bound + elsewhere == 0)
    report("FAIL", "%s: could not be loaded to see which malloc it gets", program->starter);
  else if (elsewhere == 0)
    report("ok", "%s: malloc comes from the library in all %d objects that call it",
           program->starter, bound);
}

static void check_bindings(const struct library *library, const struct program *program) {
  if (!is_glibc_linker(program->dynamic_linker)) {
    report("note", "%s: which malloc it gets is not known: its dynamic linker is not glibc's",
           program->starter);
    return;
  }
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    report("FAIL", "%s", strerror(errno));
    return;
  }
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) be_listing(library, program, ends[1]);
  close(ends[1]);
  FILE *in = fdopen(ends[0], "r");
  if (child < 0 || in == NULL) {
    report("FAIL", "cannot start a child process: %s", strerror(errno));
    close(ends[0]);
    return;
  }
  struct binding *list = read_bindings(in);
  fclose(in);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  report_bindings(library, program, list);
  while (list != NULL) {
    struct binding *next = list->next;
    free(list->from);
    free(list->to);
    free(list);
    list = next;
  }
}

/* --- commands ------------------------------------------------------------------------------- */

int command_doctor(int argc, char **argv) {
  struct arguments arguments = {0};
  if (argp_parse(&parser, argc, argv, ARGP_IN_ORDER, NULL, &arguments) != 0) return EXIT_USAGE;
  static struct library library;
  static struct program program;
  if (!library_find(LIBRARY_RUN, arguments.library, arguments.variant, &library)) return EXIT_USAGE;
  all_right = true;
  report("ok", "library: %s", library.path);
  check_environment();
  check_child(&library);
  if (arguments.program != NULL) {
    fflush(stdout);
    int code = program_find(arguments.program, &library, &program);
    if (code != 0) return code;
    if (strcmp(program.path, program.starter) != 0)
      report("note", "%s is a script; %s runs it", program.path, program.starter);
    check_bindings(&library, &program);
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
