/* demangle_rust.c - names of functions in Rust, by libiberty: older ones (_ZN...17h...E) and those of version 0 (_R...).
 *
 * Of libiberty only rust-demangle.o and a table of characters become part of the tool. The licence of the first, LGPL 2 or later, has
 * an exception for that.
 */
#include <stdlib.h>
#include <string.h>

#include <libiberty/demangle.h>

#include "demangle.h"

/* A piece of the name, behind those before; `text` ends in a NUL all the time. */
static void add(const char *piece, size_t length, void *of) {
  struct demangler *demangler = of;
  size_t used = strlen(demangler->text);
  if (used + length >= demangler->room) {
    size_t room = 2 * (used + length) + 64;
    char *more = realloc(demangler->text, room);
    if (more == NULL) return; /* a piece is missing */
    demangler->text = more;
    demangler->room = room;
  }
  memcpy(demangler->text + used, piece, length);
  demangler->text[used + length] = 0;
}

bool demangle_rust(struct demangler *demangler, const char *linkage) {
  enum { ROOM = 256 };
  if (demangler->text == NULL) {
    demangler->text = malloc(ROOM);
    if (demangler->text == NULL) return false;
    demangler->room = ROOM;
  }
  demangler->text[0] = 0;
  return rust_demangle_callback(linkage, DMGL_NO_OPTS, add, demangler) != 0;
}
