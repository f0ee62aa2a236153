/* text.h - the few functions on text that the library needs where libc's may not be called: while it starts and while locks are held,
 * since programs replace those as well. Short texts, rarely. The empty instruction keeps compilers from making a call of libc's
 * function out of a loop.
 */
#ifndef HAK_OS_TEXT_H
#define HAK_OS_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/** strnlen */
static inline size_t text_length_within(const char *text, size_t most) {
  size_t length = 0;
  for (; length < most && text[length] != 0; length++) __asm__ volatile("");
  return length;
}

/** strlen */
static inline size_t text_length(const char *text) { return text_length_within(text, (size_t)-1); }

/** Are so many bytes the same? A text that ends earlier differs. SIZE_MAX: the whole text. */
static inline bool text_begins(const char *text, const char *start, size_t length) {
  for (size_t i = 0; i < length; i++) {
    __asm__ volatile("");
    if (text[i] != start[i]) return false;
    if (start[i] == 0) return true;
  }
  return true;
}

/** strchr */
static inline const char *text_find(const char *text, char byte) {
  for (; *text != byte; text++) {
    __asm__ volatile("");
    if (*text == 0) return NULL;
  }
  return text;
}

#endif
