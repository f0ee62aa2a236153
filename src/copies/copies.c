/* copies.c - memcpy and its family, checked: does what is written, and what is read, end inside the block that it begins in?
 *
 * libhakmem-copies.so, preloaded beside a library of hakmem's. Of memory that is not hakmem's nothing is known, and nothing is checked.
 * libc's own calls of these functions do not come here. A string function asks first how long its string is, which makes it pass over the
 * string twice. As memcpy has to be, all of it is safe in signal handlers.
 */
#define _GNU_SOURCE
#include <string.h>
#include <wchar.h>

#include "copies/real.h"
#include "hakmem.h"
#include "observe/report.h"

#pragma weak hak_room /* see real.c */

#define EXPORT __attribute__((visibility("default")))
#define CALLER __builtin_return_address(0)

/* --- what is wrong ------------------------------------------------------------------------------------------- */

/* What _FORTIFY_SOURCE ends a program with; musl has none. */
extern void __chk_fail(void) __attribute__((weak, noreturn));

static HAK_COLD void refuse_object(void) {
  if (__chk_fail != NULL) __chk_fail();
  os_abort();
}

/** The compiler knew the size of what is written to. */
static void must_fit(size_t bytes, size_t object) {
  if (HAK_UNLIKELY(bytes > object)) refuse_object();
}

static HAK_COLD void refuse(const char *function, const void *at, size_t bytes, size_t room,
                            bool writes) {
  struct report line;
  checks_end(); /* what the line is made with is none of the program's */
  report_start(&line);
  report_text(&line, function);
  report_text(&line, "(): ");
  report_pointer(&line, at);
  report_text(&line, writes ? ": writes " : ": reads ");
  report_text(&line, room > 0 ? "beyond the end of its block (" : "where no block lives (");
  report_number(&line, bytes);
  report_text(&line, " bytes; room for ");
  report_number(&line, room);
  report_text(&line, ")");
  report_end(&line);
  os_abort();
}

static inline void writes(const char *function, const void *at, size_t bytes) {
  if (bytes == 0) return;
  size_t room = hak_room(at);
  if (HAK_UNLIKELY(room < bytes)) refuse(function, at, bytes, room, true);
}

static inline void reads(const char *function, const void *at, size_t bytes) {
  if (bytes == 0) return;
  size_t room = hak_room(at);
  if (HAK_UNLIKELY(room < bytes)) refuse(function, at, bytes, room, false);
}

/* NOLINTBEGIN(readability-inconsistent-declaration-parameter-name): names in libc's headers are reserved ones. */

/* --- bytes --------------------------------------------------------------------------------------------------- */

static inline void look(const char *function, const void *caller, const void *to, const void *from,
                        size_t bytes) {
  if (!is_checked(caller)) return;
  writes(function, to, bytes);
  reads(function, from, bytes);
}

static inline void look_set(const char *function, const void *caller, const void *to,
                            size_t bytes) {
  if (is_checked(caller)) writes(function, to, bytes);
}

EXPORT void *memcpy(void *restrict to, const void *restrict from, size_t bytes) {
  look("memcpy", CALLER, to, from, bytes);
  return copy(to, from, bytes);
}

EXPORT void *memmove(void *to, const void *from, size_t bytes) {
  look("memmove", CALLER, to, from, bytes);
  return move(to, from, bytes);
}

EXPORT void *mempcpy(void *restrict to, const void *restrict from, size_t bytes) {
  look("mempcpy", CALLER, to, from, bytes);
  return (char *)copy(to, from, bytes) + bytes;
}

EXPORT void *memset(void *to, int byte, size_t bytes) {
  look_set("memset", CALLER, to, bytes);
  return set(to, byte, bytes);
}

EXPORT void *memccpy(void *restrict to, const void *restrict from, int last, size_t bytes) {
  bool checked = is_checked(CALLER);
  size_t room = checked ? hak_room(from) : SIZE_MAX;
  const char *end = memchr(from, last, bytes < room ? bytes : room);
  size_t copied = end != NULL ? (size_t)(end - (const char *)from) + 1 : bytes;
  if (checked && copied > room) refuse("memccpy", from, copied, room, false);
  if (checked) writes("memccpy", to, copied);
  char *target = copy(to, from, copied);
  return end != NULL ? target + copied : NULL;
}

EXPORT void bcopy(const void *from, void *to, size_t bytes) {
  look("bcopy", CALLER, to, from, bytes);
  move(to, from, bytes);
}

EXPORT void bzero(void *to, size_t bytes) {
  look_set("bzero", CALLER, to, bytes);
  set(to, 0, bytes);
}

EXPORT void explicit_bzero(void *to, size_t bytes) {
  look_set("explicit_bzero", CALLER, to, bytes);
  set(to, 0, bytes);
}

/* --- strings ------------------------------------------------------------------------------------------------- */

/* A string's length. It has to end inside its block, and before `most` bytes or there. */
static inline size_t length_of(const char *function, bool checked, const char *string,
                               size_t most) {
  size_t room = checked ? hak_room(string) : SIZE_MAX;
  if (room >= most) return most == SIZE_MAX ? strlen(string) : strnlen(string, most);
  size_t length = strnlen(string, room);
  if (HAK_UNLIKELY(length == room)) refuse(function, string, room + 1, room, false);
  return length;
}

static inline char *copy_string(const char *function, const void *caller, char *to,
                                const char *from, size_t object) {
  bool checked = is_checked(caller);
  size_t length = length_of(function, checked, from, SIZE_MAX);
  must_fit(length + 1, object);
  if (checked) writes(function, to, length + 1);
  move(to, from, length + 1);
  return to + length;
}

/* Always writes `bytes` bytes. Returns the end of the string, or of what there was room for. */
static inline char *copy_part(const char *function, const void *caller, char *to, const char *from,
                              size_t bytes) {
  bool checked = is_checked(caller);
  size_t length = length_of(function, checked, from, bytes);
  if (checked) writes(function, to, bytes);
  move(to, from, length);
  set(to + length, 0, bytes - length);
  return to + length;
}

/* At most `most` bytes of `from`, and a zero. */
static inline char *append(const char *function, const void *caller, char *to, const char *from,
                           size_t most, size_t object) {
  bool checked = is_checked(caller);
  size_t before = length_of(function, checked, to, SIZE_MAX);
  size_t length = length_of(function, checked, from, most);
  must_fit(before + length + 1, object);
  if (checked) writes(function, to, before + length + 1);
  move(to + before, from, length);
  to[before + length] = 0;
  return to;
}

EXPORT char *strcpy(char *restrict to, const char *restrict from) {
  copy_string("strcpy", CALLER, to, from, SIZE_MAX);
  return to;
}

EXPORT char *stpcpy(char *restrict to, const char *restrict from) {
  return copy_string("stpcpy", CALLER, to, from, SIZE_MAX);
}

EXPORT char *strncpy(char *restrict to, const char *restrict from, size_t bytes) {
  copy_part("strncpy", CALLER, to, from, bytes);
  return to;
}

EXPORT char *stpncpy(char *restrict to, const char *restrict from, size_t bytes) {
  return copy_part("stpncpy", CALLER, to, from, bytes);
}

EXPORT char *strcat(char *restrict to, const char *restrict from) {
  return append("strcat", CALLER, to, from, SIZE_MAX, SIZE_MAX);
}

EXPORT char *strncat(char *restrict to, const char *restrict from, size_t most) {
  return append("strncat", CALLER, to, from, most, SIZE_MAX);
}

/* --- wide characters ----------------------------------------------------------------------------------------- */

/* What does not fit into a number has no room anywhere. */
static inline size_t wide(size_t count) {
  return count <= PTRDIFF_MAX / sizeof(wchar_t) ? count * sizeof(wchar_t) : PTRDIFF_MAX;
}

static inline wchar_t *set_wide(wchar_t *to, wchar_t value, size_t count) {
  for (size_t i = 0; i < count; i++) to[i] = value;
  return to;
}

EXPORT wchar_t *wmemcpy(wchar_t *restrict to, const wchar_t *restrict from, size_t count) {
  look("wmemcpy", CALLER, to, from, wide(count));
  return copy(to, from, wide(count));
}

EXPORT wchar_t *wmemmove(wchar_t *to, const wchar_t *from, size_t count) {
  look("wmemmove", CALLER, to, from, wide(count));
  return move(to, from, wide(count));
}

EXPORT wchar_t *wmempcpy(wchar_t *restrict to, const wchar_t *restrict from, size_t count) {
  look("wmempcpy", CALLER, to, from, wide(count));
  return (wchar_t *)copy(to, from, wide(count)) + count;
}

EXPORT wchar_t *wmemset(wchar_t *to, wchar_t value, size_t count) {
  look_set("wmemset", CALLER, to, wide(count));
  return set_wide(to, value, count);
}

/* --- what <string.h> calls ----------------------------------------------------------------------------------- */

EXPORT void *__mempcpy(void *to, const void *from, size_t bytes);
EXPORT char *__stpcpy(char *to, const char *from);
EXPORT char *__stpncpy(char *to, const char *from, size_t bytes);
EXPORT void *__memcpy_chk(void *to, const void *from, size_t bytes, size_t object);
EXPORT void *__memmove_chk(void *to, const void *from, size_t bytes, size_t object);
EXPORT void *__mempcpy_chk(void *to, const void *from, size_t bytes, size_t object);
EXPORT void *__memset_chk(void *to, int byte, size_t bytes, size_t object);
EXPORT void __explicit_bzero_chk(void *to, size_t bytes, size_t object);
EXPORT char *__strcpy_chk(char *to, const char *from, size_t object);
EXPORT char *__stpcpy_chk(char *to, const char *from, size_t object);
EXPORT char *__strncpy_chk(char *to, const char *from, size_t bytes, size_t object);
EXPORT char *__stpncpy_chk(char *to, const char *from, size_t bytes, size_t object);
EXPORT char *__strcat_chk(char *to, const char *from, size_t object);
EXPORT char *__strncat_chk(char *to, const char *from, size_t most, size_t object);
EXPORT wchar_t *__wmemcpy_chk(wchar_t *to, const wchar_t *from, size_t count, size_t object);
EXPORT wchar_t *__wmemmove_chk(wchar_t *to, const wchar_t *from, size_t count, size_t object);
EXPORT wchar_t *__wmempcpy_chk(wchar_t *to, const wchar_t *from, size_t count, size_t object);
EXPORT wchar_t *__wmemset_chk(wchar_t *to, wchar_t value, size_t count, size_t object);

void *__mempcpy(void *to, const void *from, size_t bytes) {
  look("mempcpy", CALLER, to, from, bytes);
  return (char *)copy(to, from, bytes) + bytes;
}

char *__stpcpy(char *to, const char *from) {
  return copy_string("stpcpy", CALLER, to, from, SIZE_MAX);
}

char *__stpncpy(char *to, const char *from, size_t bytes) {
  return copy_part("stpncpy", CALLER, to, from, bytes);
}

void *__memcpy_chk(void *to, const void *from, size_t bytes, size_t object) {
  must_fit(bytes, object);
  look("memcpy", CALLER, to, from, bytes);
  return copy(to, from, bytes);
}

void *__memmove_chk(void *to, const void *from, size_t bytes, size_t object) {
  must_fit(bytes, object);
  look("memmove", CALLER, to, from, bytes);
  return move(to, from, bytes);
}

void *__mempcpy_chk(void *to, const void *from, size_t bytes, size_t object) {
  must_fit(bytes, object);
  look("mempcpy", CALLER, to, from, bytes);
  return (char *)copy(to, from, bytes) + bytes;
}

void *__memset_chk(void *to, int byte, size_t bytes, size_t object) {
  must_fit(bytes, object);
  look_set("memset", CALLER, to, bytes);
  return set(to, byte, bytes);
}

void __explicit_bzero_chk(void *to, size_t bytes, size_t object) {
  must_fit(bytes, object);
  look_set("explicit_bzero", CALLER, to, bytes);
  set(to, 0, bytes);
}

char *__strcpy_chk(char *to, const char *from, size_t object) {
  copy_string("strcpy", CALLER, to, from, object);
  return to;
}

char *__stpcpy_chk(char *to, const char *from, size_t object) {
  return copy_string("stpcpy", CALLER, to, from, object);
}

char *__strncpy_chk(char *to, const char *from, size_t bytes, size_t object) {
  must_fit(bytes, object);
  copy_part("strncpy", CALLER, to, from, bytes);
  return to;
}

char *__stpncpy_chk(char *to, const char *from, size_t bytes, size_t object) {
  must_fit(bytes, object);
  return copy_part("stpncpy", CALLER, to, from, bytes);
}

char *__strcat_chk(char *to, const char *from, size_t object) {
  return append("strcat", CALLER, to, from, SIZE_MAX, object);
}

char *__strncat_chk(char *to, const char *from, size_t most, size_t object) {
  return append("strncat", CALLER, to, from, most, object);
}

wchar_t *__wmemcpy_chk(wchar_t *to, const wchar_t *from, size_t count, size_t object) {
  must_fit(count, object);
  look("wmemcpy", CALLER, to, from, wide(count));
  return copy(to, from, wide(count));
}

wchar_t *__wmemmove_chk(wchar_t *to, const wchar_t *from, size_t count, size_t object) {
  must_fit(count, object);
  look("wmemmove", CALLER, to, from, wide(count));
  return move(to, from, wide(count));
}

wchar_t *__wmempcpy_chk(wchar_t *to, const wchar_t *from, size_t count, size_t object) {
  must_fit(count, object);
  look("wmempcpy", CALLER, to, from, wide(count));
  return (wchar_t *)copy(to, from, wide(count)) + count;
}

wchar_t *__wmemset_chk(wchar_t *to, wchar_t value, size_t count, size_t object) {
  must_fit(count, object);
  look_set("wmemset", CALLER, to, wide(count));
  return set_wide(to, value, count);
}

/* NOLINTEND(readability-inconsistent-declaration-parameter-name) */
