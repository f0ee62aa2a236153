/* report.h - lines on stderr, put together without stdio and without allocating.
 *
 * A line is built in a buffer of the caller's stack and written by one system call, so that lines of
 * several threads do not mix. What does not fit is cut, never the newline.
 */
#ifndef HAK_OBSERVE_REPORT_H
#define HAK_OBSERVE_REPORT_H

#include <stddef.h>
#include <stdint.h>

#include "os/variant.h"

struct report {
  size_t length;
  char text[512];
};

/** Starts a line with "hakmem: ". */
void report_start(struct report *line);
/** Starts a line with nothing. */
void report_start_bare(struct report *line);
void report_text(struct report *line, const char *text);
void report_bytes(struct report *line, const char *text, size_t length);
/** Text from outside: cut after 128 bytes, control characters as '?'. One line stays one line. */
void report_foreign_text(struct report *line, const char *text, size_t length);
void report_number(struct report *line, uint64_t value);
void report_pointer(struct report *line, const void *pointer);
/** Writes the line and its newline to the stderr of start-up. */
void report_end(struct report *line);
/** The start of the last such line, without its newline; "": there was none. */
void report_last(char *text, size_t room);
/** To descriptor 2 whatever it is: for a program that asks for the line now. */
void report_end_here(struct report *line);

/** One line "hakmem: FUNCTION(): POINTER: WHAT", then abort(). */
_Noreturn void report_bad_pointer(const char *function, const void *pointer, const char *what);

#define REPORT_FOREIGN "not a block of this allocator"
#define REPORT_INTERIOR "pointer into the middle of a block"
#define REPORT_DOUBLE_FREE "double free (block is already free)"
#define REPORT_WRITTEN_AFTER "block was written to after it was freed"
#define REPORT_WRITTEN_BEYOND "block was written to beyond its end"
#define REPORT_WRONG_SIZE "freed with a size that it does not have"
#define REPORT_WRONG_ALIGNMENT "freed with an alignment that it does not have"

/** One line "hakmem: internal error: WHAT", then abort(): our own state is not what it must be. */
_Noreturn void report_corruption(const char *what);

#if HAK_ASSERT
#define HAK_CHECK(condition)                                                                       \
  ((condition) ? (void)0 : report_corruption(__FILE__ ": assertion failed: " #condition))
#else
#define HAK_CHECK(condition) ((void)0)
#endif

#endif
