/* program.h - what the recorded programs share. They say what they do without allocating for it. */
#ifndef HAKMEM_TESTS_TRACE_PROGRAM_H
#define HAKMEM_TESTS_TRACE_PROGRAM_H

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* A malloc of this size, freed at once, stands before and behind what the test looks at: around it is what the
 * C library did. */
#define MARK 54321

__attribute__((format(printf, 1, 2))) static inline void say(const char *format, ...) {
  char line[256];
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  if (length < 0 || write(STDOUT_FILENO, line, (size_t)length) != length) _exit(99);
}

static inline void mark(void) { free(malloc(MARK)); }

/* Tells the test by which name it knows a block. */
static inline void *named(const char *name, void *block) {
  say("%s %#llx\n", name, (unsigned long long)(uintptr_t)block);
  return block;
}

#endif
