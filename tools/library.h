/* library.h - where libhakmem.so lies, and how it gets into a program. */
#ifndef HAKMEM_LIBRARY_H
#define HAKMEM_LIBRARY_H

#include <limits.h>
#include <stdbool.h>

#include "elf_file.h"

struct library {
  char path[PATH_MAX]; /* absolute */
  struct elf_file elf;
  const char *problem; /* why preloading it would not put a program on hakmem, or NULL */
};

/* libhakmem.so, libhakmem-trace.so, libhakmem-copies.so */
enum library_kind { LIBRARY_RUN, LIBRARY_TRACE, LIBRARY_COPIES };

/** Finds the library: `given` (from --library) when not NULL, else that of `variant` (from --variant)
 * when not NULL, else the one beside the tool or where it was installed. Complains, with the places
 * where it looked, and returns false when there is none that can be preloaded. */
bool library_find(enum library_kind kind, const char *given, const char *variant,
                  struct library *library);

/** The same, and one that is not hakmem is no error: `library->problem` says so. */
bool library_locate(enum library_kind kind, const char *given, const char *variant,
                    struct library *library);

/** Finds the library that checks copies, beside one that was found. Complains and returns false when it is not there. */
bool library_find_copies(const struct library *beside, struct library *copies);

/** Puts the library in front of LD_PRELOAD in this process's environment. Complains and returns false
 * when that cannot be done. */
bool library_set_preload(const struct library *library);

#endif
