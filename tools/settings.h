/* settings.h - what the environment and the system's file (policy/option_text.h) say of the library's options, as the library will read it, and
 * which variables look like options and are none. */
#ifndef HAKMEM_SETTINGS_H
#define HAKMEM_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "option_table.h"

struct setting {
  long value;
  const char *text; /* the value, where it may be any text; NULL: there is none */
  const char *
      source; /* "default", "profile", "environment", "file", or the option that decides this one */
  const char *rejected; /* what the environment says and the library does not understand, or NULL */
};

/** The value that a program started now would get. */
struct setting setting_of(const struct option_row *option);

/** A variable of the environment that is taken for one of ours and is none. */
struct stray {
  const char *name; /* not terminated */
  size_t name_length;
  const char *value;
  const struct option_row *nearest; /* which may have been meant, or NULL */
};

/** The next one; `position` starts at 0. False when there is none left. */
bool stray_next(size_t *position, struct stray *stray);

/** Complains of every stray and of every value that is not understood, and tells the library, by
 * HAKMEM_TOLD, that it need not: it would do so in every process. Does not repeat what a `hakmem`
 * further up has said. */
void settings_complain(void);

/** Text from outside on one line: control characters become '?'. */
void print_foreign(FILE *out, const char *text, size_t length);

#endif
