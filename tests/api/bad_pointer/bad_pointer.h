/* bad_pointer.h - for the programs that misuse one pointer and have to die of it.
 *
 * Each tells on stdout what it is about to do, does it, and returns 0 when it lives on; run.py
 * compares stderr and the signal with what was announced. A program that is built for several tiers
 * gets BLOCK_SIZE from the build.
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
#define DOUBLE_FREE "double free (block is already free)"

/* Keeps the compiler from seeing through the misuse, which it would warn of or remove. */
static inline void *opaque(void *p) {
  __asm__ volatile("" : "+r"(p) : : "memory");
  return p;
}

/* A SuperSlab that is there from the start: otherwise what the C library allocates in between (for a new
 * thread, say) could make one at the very address that was just freed. */
__attribute__((constructor)) static void warm_up(void) { free(opaque(malloc(700))); }

static inline void *take(size_t size) {
  unsigned char *p = (unsigned char *)opaque(malloc(size));
  if (p == NULL) {
    static const char text[] = "malloc gave NULL\n";
    _exit(write(STDERR_FILENO, text, sizeof text - 1) < 0 ? 3 : 2);
  }
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
