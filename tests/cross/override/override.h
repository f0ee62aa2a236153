/* override.h - what the override programs share: how they fail, and how they ask whose a block is.
 *
 * A program is linked with the library (OVERRIDE_LINKED=1), statically or not, or run with it
 * preloaded. Only C headers and functions: the programs are also built where there is no C++ library.
 */
#ifndef OVERRIDE_H
#define OVERRIDE_H

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hakmem.h"

#define CHECK(condition) ((condition) ? (void)0 : check_failed(__FILE__, __LINE__, #condition))

static inline __attribute__((noreturn)) void check_failed(const char *file, int line,
                                                          const char *condition) {
  fprintf(stderr, "FAILED %s:%d: %s (errno %d)\n", file, line, condition, errno);
  abort();
}

#if OVERRIDE_LINKED
static inline void find_library(void) {}
static inline bool owns(const void *block) { return hak_owns(block); }
#else
static bool (*owns_function)(const void *block);

static inline void find_library(void) {
  void *symbol = dlsym(RTLD_DEFAULT, "hak_owns");
  CHECK(symbol != NULL); /* the library is not preloaded */
  memcpy(&owns_function, &symbol, sizeof symbol);
}
static inline bool owns(const void *block) { return owns_function(block); }
#endif

/* Keeps the compiler from knowing that two calls belong together, and so from dropping both. */
static inline void *opaque(void *pointer) {
  __asm__ volatile("" : "+r"(pointer) : : "memory");
  return pointer;
}

/* A new block must be the library's and aligned for everything; it is filled to its end. */
static inline void *taken(void *pointer, size_t size) {
  pointer = opaque(pointer);
  CHECK(pointer != NULL);
  CHECK(owns(pointer));
  CHECK((uintptr_t)pointer % 16 == 0);
  memset(pointer, (int)(size % 251), size);
  return pointer;
}

/* The bytes that taken(pointer, size) wrote, as far as `limit`. */
static inline void still_holds(const void *pointer, size_t size, size_t limit) {
  const unsigned char *bytes = (const unsigned char *)pointer;
  for (size_t i = 0; i < limit; i += i + 64 < limit ? 61 : 1) CHECK(bytes[i] == size % 251);
}

/* One size of each tier and their neighbours. */
static const size_t sizes[] = {1,     24,    100,    1024,    1025,   5000,
                               65536, 65537, 300000, 1048577, 5000000};
enum { SIZES = (int)(sizeof sizes / sizeof sizes[0]) };

#endif
