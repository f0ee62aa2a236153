/* option_text.h - options as text: lines "NAME=VALUE", as in /etc/hakmem.conf, and in a program's `hakmem_options`.
 *
 * Blanks around a line, empty lines and lines that begin with # say nothing. Of two lines with one name the last counts. Shared by the library and the
 * tool; nothing allocates.
 */
#ifndef HAK_POLICY_OPTION_TEXT_H
#define HAK_POLICY_OPTION_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "os/text.h"

#define OPTION_FILE "/etc/hakmem.conf"
/* Another file instead, or none if it is empty; not obeyed in programs with raised privileges. */
#define OPTION_FILE_VARIABLE "HAKMEM_CONF"
/* The predecessor's names of the first profiles, in their order: accepted, and not listed (docs/porting.md). */
#define OLD_PROFILES "MIXED_TINYV3_C7_SAFE|MIXED_TINYV3_C7_BALANCED"
enum { OPTION_FILE_BYTES = 4096 }; /* a longer file counts up to its last whole line */

static inline bool option_text_is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

/* Makes of the text's lines, each ended by one of `separators`, one string after the other, each with its end; gives the
 * bytes that these take, at most length + 1, for which there has to be room. */
static inline size_t option_text_split(char *text, size_t length, const char *separators) {
  size_t used = 0;
  for (size_t at = 0; at < length;) {
    size_t end = at;
    while (end < length && text[end] != 0 && text_find(separators, text[end]) == NULL) end++;
    size_t from = at, to = end;
    while (from < to && option_text_is_blank(text[from])) from++;
    while (to > from && option_text_is_blank(text[to - 1])) to--;
    if (to > from && text[from] != '#') {
      for (size_t i = 0; i < to - from; i++) text[used + i] = text[from + i];
      used += to - from;
      text[used++] = 0;
    }
    at = end + 1;
  }
  return used;
}

/* How much of a file's start counts: what is cut off is no line. */
static inline size_t option_text_whole(const char *text, size_t length) {
  if (length < OPTION_FILE_BYTES) return length;
  while (length > 0 && text[length - 1] != '\n') length--;
  return length;
}

/* The value of a name in such strings, NULL: it is not there. */
static inline const char *option_text_find(const char *text, size_t bytes, const char *name) {
  const char *value = NULL;
  size_t length = text_length(name);
  for (size_t at = 0; at < bytes; at += text_length(text + at) + 1)
    if (text_begins(text + at, name, length) && text[at + length] == '=')
      value = text + at + length + 1;
  return value;
}

#endif
