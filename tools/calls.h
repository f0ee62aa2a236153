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

/** The same, and behind it the functions that it was inlined into: "read_line (a.c:3) < load (a.c:9)". Returns `text`. */
char *symbol_texts(const struct symbol *symbol, char *text, size_t room);
/** A function that has a name, and its line, or its file alone, as far as they are known: "read_line (a.c:3)". Returns `text`. */
char *symbol_text(const struct symbol *symbol, char *text, size_t room);

/** Is it a function of namespace std, or of what libstdc++ has beside that, by the linker's name? Or of Rust's library, or an inlined
 * one of libc's headers, by its source? Names may be NULL. */
bool is_of_std(const char *linkage, const char *source, bool inlined);

#endif
