/* The functions that stand for realloc and free, which something else may have put its own in place of.
 *
 * usage: forms */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Weak: glibc's are newer than some systems. */
extern void free_sized(void *pointer, size_t size) __attribute__((weak));
extern void free_aligned_sized(void *pointer, size_t alignment, size_t size) __attribute__((weak));

static void check(int right, const char *what) {
  if (right) return;
  fprintf(stderr, "%s\n", what);
  exit(1);
}

static void *filled(void *block, size_t size) {
  check(block != NULL, "no memory");
  return memset(block, 7, size);
}

int main(void) {
  static const size_t sizes[] = {1, 50, 3000, 100000, 3 << 20};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    size_t size = sizes[i];
    char *block = reallocarray(filled(malloc(size), size), 3, size);
    check(block != NULL && block[0] == 7 && block[size - 1] == 7, "reallocarray");
    filled(block, 3 * size);
    free(block);
    check(free_sized != NULL && free_aligned_sized != NULL, "not loaded");
    free_sized(filled(malloc(size), size), size);
    void *aligned = NULL;
    check(posix_memalign(&aligned, 64, size) == 0, "posix_memalign");
    free_aligned_sized(filled(aligned, size), 64, size);
  }
  free_sized(NULL, 0);
  free(reallocarray(NULL, 3, 100));
  return 0;
}
