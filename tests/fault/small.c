/* A small program for other ground: all tiers, threads, contents checked; fails when malloc gives
 * NULL. Run under valgrind and under small limits.
 *
 * usage: small [operations [threads]] */
#include "kit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#define SLOTS 64
#define MAX_THREADS 8

static _Atomic(kit_block) slots[SLOTS];
static uint64_t operations;

static void *work(void *argument) {
  struct kit_rng rng = kit_rng_make((uintptr_t)argument);
  for (uint64_t i = 0; i < operations; ++i) {
    size_t slot = kit_below(&rng, SLOTS);
    kit_block block = atomic_exchange(&slots[slot], 0);
    uint64_t draw = kit_below(&rng, 3);
    if (block && draw == 0) {
      block = kit_block_resize(block, kit_any_size(&rng), i);
      CHECK(block, "realloc failed");
    } else if (draw == 1) {
      kit_block_free(block);
      block = 0;
    } else if (!block) {
      block = kit_block_any(&rng, kit_any_size(&rng));
      CHECK(block, "malloc failed");
    }
    kit_block_free(atomic_exchange(&slots[slot], block));
  }
  return NULL;
}

int main(int argc, char **argv) {
  kit_start();
  operations = argc > 1 ? strtoull(argv[1], NULL, 10) : 3000;
  uintptr_t threads = argc > 2 ? strtoul(argv[2], NULL, 10) : 2;
  CHECK(threads <= MAX_THREADS, "at most %d threads", MAX_THREADS);
  pthread_t ids[MAX_THREADS];
  for (uintptr_t i = 0; i < threads; ++i)
    CHECK(pthread_create(&ids[i], NULL, work, (void *)i) == 0, "cannot create thread");
  for (uintptr_t i = 0; i < threads; ++i) pthread_join(ids[i], NULL);
  work((void *)threads);
  for (size_t i = 0; i < SLOTS; ++i) kit_block_free(slots[i]);
  puts("fine");
  return 0;
}
