/* demangle.h - names of functions as the source has them: of C++ and Rust. */
#ifndef HAKMEM_DEMANGLE_H
#define HAKMEM_DEMANGLE_H

#include <stdbool.h>
#include <stddef.h>

struct demangler {
  bool asked;                                             /* for what follows */
  char *(*of_cxx)(const char *, char *, size_t *, int *); /* of libstdc++, where there is one */
  char *text;                                             /* the last name */
  size_t room;
};

/** The name, or `linkage` itself where it is none of these languages'; lasts until the next call. */
const char *demangle(struct demangler *demangler, const char *linkage);
void demangle_end(struct demangler *demangler);

/* --- Rust alone (demangle_rust.c, or demangle_missing.c) ---- */

/** Writes the name of a Rust function to demangler->text; false: it is another language's. */
bool demangle_rust(struct demangler *demangler, const char *linkage);

#endif
