/* symbols.h - names of places in the code of a process (libdw). */
#ifndef HAKMEM_SYMBOLS_H
#define HAKMEM_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct symbols;

/* What is known of a place; the texts last until the next call. */
struct symbol {
  const char *function; /* as the source has it; NULL: not known */
  const char *linkage;  /* as the linker has it */
  const char *file;     /* NULL: not known */
  int line;
};

/** NULL: nothing is known of it, no place has a name. */
struct symbols *symbols_open(int pid);
/** Of the code that `address` lies in. */
struct symbol symbols_find(struct symbols *symbols, uint64_t address);
/** The build-id of the file that was mapped there, in hexadecimal; "": it has none. Returns `text`. */
enum { BUILD_ID_ROOM = 64 * 2 + 1 };
char *symbols_build_id(struct symbols *symbols, uint64_t address, char text[BUILD_ID_ROOM]);

/** Of files, which no process has to run. */
struct symbols *symbols_of_files(void);
/** Of the code at `address` in the file at `path`, as that has it. */
struct symbol symbols_find_in(struct symbols *symbols, const char *path, uint64_t address);

void symbols_close(struct symbols *symbols);

#endif
