/* cli.h - what the parts of the command-line tool share. */
#ifndef HAKMEM_CLI_H
#define HAKMEM_CLI_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* As env(1) and nice(1): what goes wrong before the program runs is told apart from the program's own
 * exit codes as far as possible. */
enum {
  EXIT_USAGE = 2,        /* bad arguments, or the library is missing */
  EXIT_CANNOT_RUN = 126, /* the program is there, but cannot run on hakmem */
  EXIT_NO_PROGRAM = 127, /* there is no such program */
};

/** One line on stderr: "hakmem COMMAND: ...". The command is the one being executed. */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** From now on complaints go to `out`, without the command; NULL: to stderr again. */
void collect_complaints(FILE *out);

/** False: complaints are dropped, until it is called again. */
void let_complain(bool on);

/** Milliseconds of a clock that nobody sets. */
uint64_t now_ms(void);

/** How many bytes of a character stand here that a terminal would obey: 0: none. It is one, or two where UTF-8 is read. */
unsigned control_bytes(const char *text);

/** A line as complain() writes it: control characters as '?'. */
void print_line(FILE *out, const char *format, va_list arguments)
    __attribute__((format(printf, 2, 0)));

/** For the parser of a command with one argument at most: keeps it, and refuses all else. */
int take_argument(int key, char *value, char **argument);

/** Is `--format` json? False after a complaint: it is neither that nor text, nor left out. */
bool take_text_or_json(const char *format, bool *is_json);

/** What follows the last '/' of a path. */
const char *base_name(const char *path);

/** Opens /dev/null as each of the three that is closed: a pipe, or a file, that we open must not become the output of a child. */
void fill_standard_descriptors(void);

/** Called once, before any complain(). */
void set_command_name(const char *name);

/* The commands. argv[0] is "hakmem COMMAND"; each returns the exit code. */
int command_run(int argc, char **argv);
int command_options(int argc, char **argv);
int command_doctor(int argc, char **argv);
int command_stats(int argc, char **argv);
int command_top(int argc, char **argv);
int command_prof(int argc, char **argv);
int command_explain(int argc, char **argv);
int command_core(int argc, char **argv);
int command_blackbox(int argc, char **argv);
int command_where(int argc, char **argv);
int command_serve(int argc, char **argv);
int command_names(int argc, char **argv);
int command_trace(int argc, char **argv);
int command_version(int argc, char **argv);

/** The child that doctor and version start on the library: tells on stdout what it finds. */
int command_probe(void);

#endif
