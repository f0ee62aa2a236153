/* replaced_malloc.c - a program with a malloc of its own, which leaves some of the family to the library: what it does not have has to fit
 * what it has.
 *
 * With LIBC_NAMES it hands malloc and calloc on to glibc's second names, and has no realloc and free. Without, it takes all from an array,
 * as a program with another allocator linked in, and has no reallocarray.
 */
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* NOLINTBEGIN(readability-inconsistent-declaration-parameter-name): libc names them otherwise */

static size_t calls;

static void fail(const char *what) {
  fputs(what, stderr);
  fputs("\n", stderr);
  abort();
}

#if LIBC_NAMES
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *pointer, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void *__libc_valloc(size_t size);
void *__libc_pvalloc(size_t size);
void __libc_free(void *pointer);

void *malloc(size_t size) {
  calls++;
  void *block = __libc_malloc(size);
  if (malloc_usable_size(block) < size) fail("usable size");
  return block;
}
void *calloc(size_t count, size_t size) {
  calls++;
  return __libc_calloc(count, size);
}

static void use_all(size_t size) {
  void *volatile block = malloc(size);
  block = realloc(block, 2 * size);
  free(block);
  block = calloc(3, size);
  __libc_free(block);
  block = memalign(64, size);
  __libc_free(__libc_realloc(block, 3 * size));
  free(__libc_memalign(64, size));
  free(__libc_valloc(size));
  free(__libc_pvalloc(size));
}
#else
enum { ROOM = 16 << 20, HEADER = 16 };
static char room[ROOM] __attribute__((aligned(HEADER)));
static size_t used;

void *malloc(size_t size) {
  size_t bytes = (size + 2 * HEADER - 1) / HEADER * HEADER;
  calls++;
  if (ROOM - used < bytes) return NULL;
  char *block = room + used + HEADER;
  memcpy(block - HEADER, &size, sizeof size);
  used += bytes;
  return block;
}
void free(void *pointer) { (void)pointer; }
void *calloc(size_t count, size_t size) { return malloc(count * size); }
void *realloc(void *pointer, size_t size) {
  size_t before = 0;
  void *block = malloc(size);
  if (pointer != NULL) memcpy(&before, (char *)pointer - HEADER, sizeof before);
  if (block != NULL && pointer != NULL) memcpy(block, pointer, before < size ? before : size);
  return block;
}

static void use_all(size_t size) {
  char *volatile block = malloc(size);
  memset(block, 7, size);
  block = reallocarray(block, 2, size);
  if (block < room || block >= room + ROOM || block[size - 1] != 7) fail("reallocarray");
  if (reallocarray(block, SIZE_MAX / 2, size + 3) != NULL) fail("reallocarray that overflows");
  free(block);
}
#endif

/* NOLINTEND(readability-inconsistent-declaration-parameter-name) */

int main(void) {
  for (size_t size = 1; size < 3000; size = size * 2 + 5) use_all(size);
  if (calls == 0) fail("the program's malloc was not called");
  puts("every block went back to where it came from");
  return 0;
}
