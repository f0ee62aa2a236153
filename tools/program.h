/* program.h - the program that a user names: where it is, and whether a library can be preloaded into
 * it. */
#ifndef HAKMEM_PROGRAM_H
#define HAKMEM_PROGRAM_H

#include <limits.h>
#include <stdbool.h>

#include "library.h"

struct program {
  char path[PATH_MAX];           /* what is executed */
  char starter[PATH_MAX];        /* the ELF program that the kernel starts: path itself, or the
                                   interpreter of a script */
  char dynamic_linker[PATH_MAX]; /* of the starter; "" when it could not be read */
  bool needs_shell;              /* a text without "#!": a shell runs it, as execvp(3) does */
};

/** Finds `name` as execvp(3) would and checks that `library` can be preloaded into it. Returns 0, or
 * complains and returns EXIT_CANNOT_RUN or EXIT_NO_PROGRAM. */
int program_find(const char *name, const struct library *library, struct program *program);

/** Executes it in place of this process, after a word about variables that the library does not know,
 * which its processes then do not repeat. Returns only on failure, with the exit code, after having
 * complained. */
int program_execute(const struct program *program, char **argv);

#endif
