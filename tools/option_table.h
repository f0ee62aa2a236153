/* option_table.h - the library's options as the tool shows them, from the same table as the library's
 * own (src/policy/options.def). */
#ifndef HAKMEM_OPTION_TABLE_H
#define HAKMEM_OPTION_TABLE_H

#include <stdbool.h>
#include <stddef.h>

enum option_type {
  OPTION_BOOL,
  OPTION_CHOICE,
  OPTION_NUMBER,
  OPTION_BYTES,
  OPTION_KBYTES,
  OPTION_MBYTES,
  OPTION_PATH,
  OPTION_DIRECTORY,
  OPTION_SIGNAL
};
enum { PROFILE_COUNT = 3 };

struct option_row {
  const char *name;
  enum option_type type;
  long defaults[PROFILE_COUNT]; /* speed, balanced, lean */
  long low, high;
  const char *accepted;
  const char *help;
};

extern const struct option_row option_table[];
extern const size_t option_count;
extern const char *const profile_names[PROFILE_COUNT];

enum { OPTION_TEXT_SIZE = 64 };

/** False for a name of the predecessor, which is accepted but not shown in a table. */
bool option_is_listed(const struct option_row *option);

/** Is it a number, perhaps of bytes, KiB or MiB? */
bool option_is_number(const struct option_row *option);

/** A number with K, M or G behind it, or without, as bytes; false: it is none, or too large. */
bool size_parse(const char *text, long long *bytes);

/** Is its value any text? Then the library alone says whether it is understood, and a value here only whether there is one. */
bool option_is_text(const struct option_row *option);

/** The value as a user would write it; "none" where it may be any text. */
void option_text(const struct option_row *option, long value, char text[OPTION_TEXT_SIZE]);

/** True when the library would take `text` for the option, as `*value`. */
bool option_parse(const struct option_row *option, const char *text, long *value);

/** The same, without the value. */
bool option_accepts(const struct option_row *option, const char *text);

/** The option of that name, or NULL. */
const struct option_row *option_find(const char *name);

/** The option that may have been meant by a name that is none's, or NULL. */
const struct option_row *option_nearest(const char *name, size_t length);

/** The profile (0..2) that a name stands for, or -1. */
int profile_find(const char *name);

#endif
