/* program.h - the program that a user names: where it is, and whether a library can be preloaded into
 * it. */
#ifndef HAKMEM_PROGRAM_H
#define HAKMEM_PROGRAM_H

#include <limits.h>
#include <stdbool.h>

#include "elf_symbols.h"
#include "library.h"

struct program {
  char path[PATH_MAX];           /* what is executed */
  char starter[PATH_MAX];        /* the ELF program that the kernel starts: path itself, or the
                                   interpreter of a script */
  char dynamic_linker[PATH_MAX]; /* of the starter; "" when it could not be read */
  enum elf_symbol own_malloc;    /* SYMBOL_EXPORTED: it wins over the library's for everybody;
                                    SYMBOL_HIDDEN: the starter's own calls go there */
  bool has_hakmem;               /* linked in: its own malloc is ours */
  bool is_go;
  bool is_script;
  bool needs_shell; /* a text without "#!": a shell runs it, as execvp(3) does */
};

/** Finds `name` as execvp(3) would and checks that `library` can be preloaded into it. Returns 0, or
 * complains and returns EXIT_CANNOT_RUN or EXIT_NO_PROGRAM. */
int program_find(const char *name, const struct library *library, struct program *program);

/** The same for a program with its arguments, argv: the program that `env` starts counts, not env. And
 * one that brings its own malloc is not refused: `own_malloc` says so. */
int program_examine(char **argv, const struct library *library, struct program *program);

/** Refuses a program whose own malloc wins: complains and returns EXIT_CANNOT_RUN, else 0. */
int program_refuse_own_malloc(const struct program *program);

/** Why no library can be preloaded into the program, in two or three words; NULL: it can, or cannot be read. */
const char *program_obstacle(const char *path);

/** Is it the dynamic linker that started this tool? */
bool program_is_own_linker(const char *path);

/** Executes it in place of this process, after a word about variables that the library does not know,
 * which its processes then do not repeat. Returns only on failure, with the exit code, after having
 * complained. */
int program_execute(const struct program *program, char **argv);

/** Ends this process by the signal that ended the program, without a dump of its own. */
_Noreturn void program_end_by(int signal_number);

#endif
