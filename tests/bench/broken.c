/* broken.c - an allocator to preload whose calloc does not clear, whose realloc does not copy, whose
 * aligned_alloc does not align and whose malloc hands a block out twice: the benchmark programs have
 * to notice.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The system's own, past this file's. */
void *__libc_malloc(size_t size);
void __libc_free(void *ptr);

#define OVERLAPPING 4000 /* the size that BROKEN_MALLOC is about */

static char memory[2 * OVERLAPPING];

/* Blocks that overlap by half: each one is written over by the next. */
void *malloc(size_t size) {
  static size_t turn;
  if (size != OVERLAPPING || getenv("BROKEN_MALLOC") == NULL) return __libc_malloc(size);
  return &memory[turn++ % 2 * (OVERLAPPING / 2)];
}

void free(void *ptr) {
  uintptr_t at = (uintptr_t)ptr - (uintptr_t)memory;
  if (at >= sizeof memory) __libc_free(ptr);
}

void *calloc(size_t nmemb, size_t size) {
  size_t bytes = nmemb * size;
  void *block = malloc(bytes);
  /* Only where a benchmark asks: libc itself relies on zeros. */
  if (block != NULL) memset(block, getenv("BROKEN_CALLOC") != NULL ? 0x55 : 0, bytes);
  return block;
}

void *realloc(void *ptr, size_t size) {
  (void)ptr;
  return calloc(1, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
  uintptr_t block = (uintptr_t)malloc(size + 2 * alignment);
  return (void *)((block + alignment - 1) / alignment * alignment + 8);
}
