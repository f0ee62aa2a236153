/* main.c - hakmem: the command-line tool. Finds the command and hands over. */
#define _GNU_SOURCE
#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "own_path.h"
#include "probe.h"
#include "settings.h"

struct command {
  const char *name;
  int (*execute)(int argc, char **argv);
  const char *help;
};

static const struct command commands[] = {
    {"run", command_run, "run a program on hakmem"},
    {"options", command_options, "list the HAKMEM_* variables"},
    {"doctor", command_doctor, "check that a program really would run on hakmem"},
    {"stats", command_stats, "show where the memory of a running process is"},
    {"top", command_top, "show how the memory of a running process changes"},
    {"explain", command_explain, "say why memory of a running process does not come back"},
    {"prof", command_prof, "show who allocated what lives in a running process"},
    {"core", command_core, "show what ended a process, and its memory, by its core file"},
    {"blackbox", command_blackbox, "list the black boxes that processes have written"},
    {"where", command_where, "show what an address in a process is"},
    {"serve", command_serve, "serve the memory of running processes to Prometheus"},
    {"names", command_names, "add functions and lines to the places in a message"},
    {"trace", command_trace, "record what a program allocates"},
    {"version", command_version, "print the versions of the tool and of the library"},
};
enum { COMMAND_COUNT = sizeof commands / sizeof commands[0] };

static const char *command_name = "";

void set_command_name(const char *name) { command_name = name; }

uint64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

unsigned control_bytes(const char *text) {
  const unsigned char *bytes = (const unsigned char *)text;
  if (bytes[0] == 0xc2 && bytes[1] >= 0x80 && bytes[1] < 0xa0) return 2; /* U+0080 to U+009F */
  return (bytes[0] < 0x20 && bytes[0] != 0) || bytes[0] == 0x7f ? 1 : 0;
}

void print_line(FILE *out, const char *format, va_list arguments) {
  char *line = NULL;
  int length = vasprintf(&line, format, arguments);
  if (length < 0) {
    fputs(format, out);
  } else {
    /* What a file or a user named may hold anything, and a terminal obeys control characters. */
    print_foreign(out, line, (size_t)length);
    free(line);
  }
  fputc('\n', out);
}

bool take_text_or_json(const char *format, bool *is_json) {
  *is_json = format != NULL && strcmp(format, "json") == 0;
  if (format == NULL || *is_json || strcmp(format, "text") == 0) return true;
  complain("--format=%s: unknown; accepted: text|json", format);
  return false;
}

const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash != NULL ? slash + 1 : path;
}

int take_argument(int key, char *value, char **argument) {
  if (key != ARGP_KEY_ARG || *argument != NULL) return ARGP_ERR_UNKNOWN;
  *argument = value;
  return 0;
}

static FILE *complaints; /* NULL: stderr */
static bool complains = true;

void collect_complaints(FILE *out) { complaints = out; }

void let_complain(bool on) { complains = on; }

void complain(const char *format, ...) {
  va_list arguments;
  if (!complains) return;
  va_start(arguments, format);
  if (complaints == NULL)
    fprintf(stderr, "hakmem%s%s: ", command_name[0] != 0 ? " " : "", command_name);
  print_line(complaints != NULL ? complaints : stderr, format, arguments);
  va_end(arguments);
}

void fill_standard_descriptors(void) {
  for (int fd = 0; fd <= STDERR_FILENO; fd++)
    if (fcntl(fd, F_GETFD) < 0) open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

static void print_help(FILE *out) {
  fputs("usage: hakmem COMMAND [ARGUMENTS]\n\ncommands:\n", out);
  for (int i = 0; i < COMMAND_COUNT; i++)
    fprintf(out, "  %-9s %s\n", commands[i].name, commands[i].help);
  fputs("  help      print this, or with a command's name its help\n\n"
        "example: hakmem run --profile speed -- python3 script.py\n",
        out);
}

static const struct command *find_command(const char *name) {
  for (int i = 0; i < COMMAND_COUNT; i++)
    if (strcmp(commands[i].name, name) == 0) return &commands[i];
  return NULL;
}

static int execute(const struct command *command, int argc, char **argv) {
  /* argp names the program by argv[0] in its messages. */
  char name[32];
  snprintf(name, sizeof name, "hakmem %s", command->name);
  argv[0] = name;
  program_invocation_name = name;
  program_invocation_short_name = name;
  set_command_name(command->name);
  argp_err_exit_status = EXIT_USAGE;
  /* Not in commands that start a program: it inherits what it would have had. */
  if (command->execute != command_run && command->execute != command_trace &&
      command->execute != command_prof)
    fill_standard_descriptors();
  int code = command->execute(argc, argv);
  /* A full disk or a closed pipe must not look like success. */
  if (fflush(stdout) != 0 || ferror(stdout)) {
    complain("cannot write: %s", strerror(errno));
    return code != 0 ? code : 1;
  }
  return code;
}

static int help(int argc, char **argv) {
  if (argc < 3) {
    print_help(stdout);
    return 0;
  }
  const struct command *command = find_command(argv[2]);
  if (command == NULL) {
    complain("help: no command '%s'; 'hakmem help' lists them", argv[2]);
    return EXIT_USAGE;
  }
  char option[] = "--help";
  char *arguments[] = {argv[0], option, NULL};
  return execute(command, 2, arguments);
}

int main(int argc, char **argv) {
  own_path_start(argc > 0 ? argv[0] : NULL);
  if (argc < 2) {
    print_help(stderr);
    return EXIT_USAGE;
  }
  const char *name = argv[1];
  if (strcmp(name, PROBE_ARGUMENT) == 0) return command_probe();
  if (strcmp(name, "help") == 0 || strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 ||
      strcmp(name, "-?") == 0)
    return help(argc, argv);
  if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) name = "version";
  const struct command *command = find_command(name);
  if (command == NULL) {
    complain("no command '%s'; 'hakmem help' lists them", name);
    return EXIT_USAGE;
  }
  return execute(command, argc - 1, argv + 1);
}
