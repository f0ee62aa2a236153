/* N threads allocate, resize and free at random over all tiers. Half of the blocks go through slots
 * that all threads share, so that they are freed by another thread than the one that allocated them.
 *
 * usage: threads [threads [operations-per-thread]] */
#include "kit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#define MAX_THREADS 64
#define SHARED 512
#define OWN 64

static _Atomic(kit_block) shared[SHARED];
static uint64_t operations;

static void *work(void *argument) {
  struct kit_rng rng = kit_rng_make((uintptr_t)argument);
  kit_block own[OWN] = {0};
  for (uint64_t i = 0; i < operations; ++i) {
    uint64_t draw = kit_random(&rng);
    size_t slot = (draw >> 8) % OWN;
    switch (draw & 15) {
    case 0: /* resize one of our own */
    case 1:
      if (own[slot]) {
        own[slot] = kit_block_resize(own[slot], kit_any_size(&rng), draw);
        CHECK(own[slot], "realloc failed");
      }
      break;
    case 2: /* resize a block of whichever thread */
      slot = (draw >> 8) % SHARED;
      kit_block taken = atomic_exchange_explicit(&shared[slot], 0, memory_order_acq_rel);
      if (taken) {
        taken = kit_block_resize(taken, kit_any_size(&rng), draw);
        CHECK(taken, "realloc failed");
        kit_block_free(atomic_exchange_explicit(&shared[slot], taken, memory_order_acq_rel));
      }
      break;
    case 3: /* an empty block is a block too */
      if (draw & 0x100000) {
        void *empty = mem_malloc(0);
        CHECK(empty, "malloc(0) gave NULL");
        mem_free(empty);
      }
      break;
    case 4:
    case 5:
    case 6:
    case 7:
      if (own[slot]) {
        kit_block_free(own[slot]);
        own[slot] = 0;
      } else {
        own[slot] = kit_block_any(&rng, kit_any_size(&rng));
        CHECK(own[slot], "malloc failed");
      }
      break;
    default: {
      slot = (draw >> 8) % SHARED;
      kit_block block = 0;
      if (draw & 0x80) {
        block = kit_block_any(&rng, kit_any_size(&rng));
        CHECK(block, "malloc failed");
      }
      kit_block_free(atomic_exchange_explicit(&shared[slot], block, memory_order_acq_rel));
    }
    }
  }
  for (size_t i = 0; i < OWN; ++i) kit_block_free(own[i]);
  return NULL;
}

int main(int argc, char **argv) {
  kit_start();
  uintptr_t threads = argc > 1 ? strtoul(argv[1], NULL, 10) : 4;
  operations = argc > 2 ? strtoull(argv[2], NULL, 10) : kit_rounds(1200000) / (unsigned)threads;
  CHECK(threads >= 1 && threads <= MAX_THREADS, "1 to %d threads", MAX_THREADS);
  pthread_t ids[MAX_THREADS];
  for (uintptr_t i = 0; i < threads; ++i)
    CHECK(pthread_create(&ids[i], NULL, work, (void *)i) == 0, "cannot create thread");
  for (uintptr_t i = 0; i < threads; ++i) pthread_join(ids[i], NULL);
  for (size_t i = 0; i < SHARED; ++i) kit_block_free(shared[i]);
  kit_purge();
  struct hak_stats stats = kit_stats();
  printf("%lu threads x %lu operations; left: %lu superslabs, %lu huge, %lu heaps active\n",
         (unsigned long)threads, (unsigned long)operations, (unsigned long)stats.superslabs_live,
         (unsigned long)stats.huge_live, (unsigned long)stats.heaps_active);
  CHECK(stats.huge_live == 0, "huge blocks are left");
  CHECK(stats.superslabs_live <= 4, "superslabs are left");
  CHECK(stats.heaps_active == 1, "heaps of ended threads are still active");
  return 0;
}
