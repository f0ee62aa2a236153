/* broken.c - an allocator to preload whose calloc does not clear, whose realloc does not copy and
 * whose aligned_alloc does not align: the benchmark programs have to notice.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

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
