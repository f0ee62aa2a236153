/* calls.c - every function of the C family, between two marks. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <string.h>

#include "program.h"

typedef void (*free_sized_function)(void *, size_t);
typedef void (*free_aligned_sized_function)(void *, size_t, size_t);

static void simple(void) {
  free(named("zero", malloc(0)));
  void *a = named("a", malloc(100));
  void *b = named("b", calloc(7, 48));
  if (malloc_usable_size(a) < 100 || malloc_usable_size(b) < 336) _exit(1);
  free(NULL);
  free(a);
  free(b);
  free(named("copy", strdup("nine char")));
}

static void resized(void) {
  void *small = named("small", realloc(NULL, 77));
  void *larger = named("larger", realloc(small, 30000));
  void *array = named("array", reallocarray(larger, 1000, 60));
  void *same = named("same", realloc(array, 59999));
  volatile size_t far_too_much = (size_t)PTRDIFF_MAX + 1, far_too_many = SIZE_MAX / 8;
  if (reallocarray(same, far_too_many, 16) != NULL) _exit(2);
  if (realloc(same, far_too_much) != NULL) _exit(3);
  if (realloc(same, 0) != NULL) _exit(4);
}

static void refused(void) {
  volatile size_t far_too_much = (size_t)PTRDIFF_MAX + 1, far_too_many = SIZE_MAX / 8;
  void *block = NULL;
  if (malloc(far_too_much) != NULL || calloc(far_too_many, 16) != NULL) _exit(5);
  if (reallocarray(NULL, far_too_many, 16) != NULL) _exit(6);
  if (posix_memalign(&block, 24, 1000) == 0) _exit(7);
  if (aligned_alloc(64, far_too_much) != NULL) _exit(8);
}

static void aligned(void) {
  volatile size_t no_power = 48;
  void *block = NULL;
  if (posix_memalign(&block, 256, 1000) != 0) _exit(9);
  free(named("posix", block));
  free(named("c11", aligned_alloc(4096, 8192)));
  free(named("memalign", memalign(64, 65)));
  free(named("rounded", memalign(no_power, 10)));
  free(named("valloc", valloc(10)));
  free(named("pvalloc", pvalloc(10)));
  free(named("megabytes", aligned_alloc((size_t)4 << 20, 40)));
}

int main(void) {
  free_sized_function sized = (free_sized_function)dlsym(RTLD_DEFAULT, "free_sized");
  free_aligned_sized_function aligned_sized =
      (free_aligned_sized_function)dlsym(RTLD_DEFAULT, "free_aligned_sized");
  if (sized == NULL || aligned_sized == NULL) return 10;
  mark();
  simple();
  resized();
  refused();
  aligned();
  sized(named("sized", malloc(123)), 123);
  aligned_sized(named("aligned_sized", aligned_alloc(128, 256)), 128, 256);
  mark();
  return 0;
}
