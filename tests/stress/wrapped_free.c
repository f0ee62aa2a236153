/* wrapped_free.c - functions that programs put before malloc and free, compiled without optimisation: each does something after the real one,
 * so that its caller's caller cannot be told by a return address. With WRAPPED_FREE_ALLOCATES it allocates as well. */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>

extern atomic_ulong wrapped_free_calls;
atomic_ulong wrapped_free_calls;

void free(void *pointer) {
  static void (*_Atomic real)(void *);
  static void *(*_Atomic real_malloc)(size_t);
  static atomic_int allocates = -1;
  if (real == NULL) {
    real_malloc = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
    real = (void (*)(void *))dlsym(RTLD_NEXT, "free");
    allocates = getenv("WRAPPED_FREE_ALLOCATES") != NULL;
  }
  size_t size = 1000 * (1 + wrapped_free_calls % 60);
  void *before = allocates == 1 ? real_malloc(size) : NULL;
  real(pointer);
  void *after = allocates == 1 ? real_malloc(2 * size) : NULL;
  atomic_fetch_add(&wrapped_free_calls, 1);
  if (before != NULL) real(before);
  if (after != NULL) real(after);
}
