/* bad_pointer.h - for a program that misuses one pointer and has to die of it.
 *
 * A case tells on stdout what it is about to do, does it, and returns when it lives on; run.py compares
 * stderr and the signal with what was announced. foreign.c, blocks.c and operators.cpp hold the cases,
 * main.c the list of them.
 */
#ifndef BAD_POINTER_H
#define BAD_POINTER_H

#include <malloc.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FOREIGN "not a block of this allocator"
#define INTERIOR "pointer into the middle of a block"
#define WRITTEN_AFTER "block was written to after it was freed"
#define WRONG_SIZE "freed with a size that it does not have"
#define DOUBLE_FREE "double free (block is already free)"

#ifdef __cplusplus
extern "C" {
#endif

/* What the command line asks for; 0 and NULL where the case has no use for it. */
extern size_t block_size;
extern const char *double_free_of_tier; /* the complaint about the second free of such a block */
extern size_t into;                     /* how far into the block */
extern uintptr_t garbage;               /* an address with nothing behind it */

#define CASE(name) void case_##name(void);
#include "cases.def"
#undef CASE

#ifdef __cplusplus
}
#endif

/* The case could not be prepared. */
static inline void give_up(const char *why) {
  _exit(write(STDERR_FILENO, why, strlen(why)) < 0 ? 3 : 2);
}

/* Keeps the compiler from seeing through the misuse, which it would warn of or remove. */
static inline void *opaque(void *p) {
  __asm__ volatile("" : "+r"(p) : : "memory");
  return p;
}

static inline void *take(size_t size) {
  unsigned char *p = (unsigned char *)opaque(malloc(size));
  if (p == NULL) give_up("malloc gave NULL\n");
  p[0] = 1;
  p[size - 1] = 1;
  return p;
}

/* `function` is about to be called with the bad `pointer`; `what` is the complaint that is due. */
static inline void announce(const char *function, const void *pointer, const char *what) {
  char line[200];
  int length = snprintf(line, sizeof line, "hakmem: %s(): 0x%llx: %s\n", function,
                        (unsigned long long)(uintptr_t)pointer, what);
  if (write(STDOUT_FILENO, line, (size_t)length) != length) _exit(3);
}

static inline void free_badly(void *pointer, const char *what) {
  announce("free", pointer, what);
  free(opaque(pointer));
}

#endif
