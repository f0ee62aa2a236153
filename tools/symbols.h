/* symbols.h - names of places in the code of a process (libdw). */
#ifndef HAKMEM_SYMBOLS_H
#define HAKMEM_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mapped.h"

struct symbols;

/* What is known of a place; the texts last until the next call, and so do callers. */
struct symbol {
  const char *function; /* as the source has it; NULL: not known */
  const char *linkage;  /* as the linker has it */
  const char *file;     /* NULL: not known */
  int line;             /* 0: not known */
  /* The file that the function begins in. */
  const char *source;
  bool
      made; /* at run time: by an interpreter or a compiler in the process, which tells its name (perf_map.h) */
  /* The compiler has put the function into this one, which calls it at its file and line. NULL: it has code of its own. */
  const struct symbol *caller;
};

/** Of a process or a core; NULL: nothing is known of it, no place has a name. */
struct symbols *symbols_open(struct target target);
/** Of the code that `address` lies in: the innermost function, which may have been inlined into its callers. */
struct symbol symbols_find(struct symbols *symbols, uint64_t address);
/** The build-id of the file that was mapped there, in hexadecimal; "": it has none. Returns `text`. */
char *symbols_build_id(struct symbols *symbols, uint64_t address, char text[BUILD_ID_ROOM]);

/* A file of the process that was deleted or replaced, and that cannot be read. */
struct unread {
  struct unread *next;
  uint64_t base; /* where it begins in memory */
  char *name;    /* without " (deleted)" */
  char build_id[BUILD_ID_ROOM];
  char why[256]; /* a sentence, which names it */
};
/** Those that an address has been looked up in so far; NULL: none. */
const struct unread *symbols_unread(const struct symbols *symbols);
/** The one that the address lies in; NULL: it lies in none. */
const struct unread *symbols_unread_at(struct symbols *symbols, uint64_t address);

/** Of files, which no process has to run. */
struct symbols *symbols_of_files(void);
/** Of the code at `address` in the file at `path`, as that has it or counted from where it begins in memory. A `build_id` that is not
 * NULL is the file's: it may be elsewhere by now. */
struct symbol symbols_find_in(struct symbols *symbols, const char *path, const char *build_id,
                              uint64_t address);

/** The calls of a thread of a core, innermost first, by the rules of its files; how many, at most `most`. 0: they cannot be told. */
unsigned symbols_calls(struct symbols *symbols, int thread, uint64_t *addresses, unsigned most);

void symbols_close(struct symbols *symbols);

#endif
