/* calls.h - a stack in one line. */
#ifndef HAKMEM_CALLS_H
#define HAKMEM_CALLS_H

#include <stdbool.h>

#include "profile.h"
#include "symbols.h"

/** The innermost calls that led to a block: "read_line < load < main", with `with_line` "read_line (a.c:3) < load < main". Without
 * a name its address stands for a function. Returns `text`. */
char *calls_text(const struct site *site, struct symbols *symbols, bool with_line, char *text,
                 size_t room);

/** A function that has a name, and its line, or its file alone, as far as they are known: "read_line (a.c:3)". Returns `text`. */
char *symbol_text(const struct symbol *symbol, char *text, size_t room);

#endif
