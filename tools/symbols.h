/* symbols.h - names of places in the code of a process (libdw). */
#ifndef HAKMEM_SYMBOLS_H
#define HAKMEM_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct symbols;

/** NULL: nothing is known of it, every place has its address for a name. */
struct symbols *symbols_open(int pid);
/** "function (file.c:12)", "function (library.so)", or the address; of the call before a return address. With
 * `short_name` the function alone. Returns `text`. */
char *symbols_name(struct symbols *symbols, uint64_t address, bool short_name, char *text,
                   size_t room);
void symbols_close(struct symbols *symbols);

#endif
