/* The allocator in threads with the smallest stack that POSIX allows: its deepest paths have to fit
 * beside what the program has on the stack. An overflow hits the guard page and ends the program. */
#include "kit.h"

#include <limits.h>
#include <pthread.h>
#include <stdio.h>

static void *work(void *argument) {
  uint64_t number = (uintptr_t)argument;
  /* Without the kit's contents checks: the stack is for the allocator. */
  void *blocks[8];
  for (size_t round = 0; round < 3; ++round) {
    size_t size = 3;
    for (size_t i = 0; i < 8; ++i, size *= 9) { /* to 14 MB */
      blocks[i] = number & 1 ? mem_malloc(size) : mem_aligned_alloc((size_t)16 << i, size);
      CHECK(blocks[i], "malloc(%zu) failed", size);
    }
    for (size_t i = 0; i < 8; ++i) {
      void *bigger = mem_realloc(blocks[i], mem_usable_size(blocks[i]) * 3);
      CHECK(bigger, "realloc failed");
      blocks[i] = bigger;
    }
    for (size_t i = 0; i < 8; ++i) mem_free(blocks[i]);
    kit_purge();
  }
  return NULL;
}

int main(void) {
  kit_start();
  if (KIT_SANITIZED) {
    puts("skipped: a sanitizer's own frames do not fit into such a stack");
    return KIT_SKIP;
  }
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  CHECK(pthread_attr_setstacksize(&attributes, PTHREAD_STACK_MIN) == 0,
        "pthread_attr_setstacksize");
  for (uintptr_t i = 0; i < 20; ++i) {
    pthread_t ids[2];
    for (uintptr_t t = 0; t < 2; ++t)
      CHECK(pthread_create(&ids[t], &attributes, work, (void *)(i + t)) == 0,
            "cannot create thread");
    for (uintptr_t t = 0; t < 2; ++t) pthread_join(ids[t], NULL);
  }
  pthread_attr_destroy(&attributes);
  printf("fits into %ld bytes of stack\n", (long)PTHREAD_STACK_MIN);
  return 0;
}
