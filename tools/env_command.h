/* env_command.h - what env(1) does with its arguments: which program it starts, and with what of the
 * environment. */
#ifndef HAKMEM_ENV_COMMAND_H
#define HAKMEM_ENV_COMMAND_H

#include <stdbool.h>

struct env_command {
  char *program;        /* as given, or NULL: it starts none, or cannot be followed */
  char **arguments;     /* the program's own, NULL-terminated */
  bool drops_preload;   /* LD_PRELOAD does not reach the program */
  bool looks_elsewhere; /* in another PATH or directory: the program's name says nothing here */
};

/** Reads env's arguments, `words`, of which -S cuts one to pieces in place. What it returns points into
 * them and into memory of its own, until the next call. */
struct env_command env_command_read(char **words);

#endif
