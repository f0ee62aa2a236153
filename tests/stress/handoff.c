/* Producers allocate, consumers free and never allocate: 1:1, N:1 and 1:N. Each tier in turn.
 * Memory must come back to the producers: what is mapped stays bounded by what is in flight.
 *
 * usage: handoff [producers consumers] */
#include "kit.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define SLOTS 256
#define MAX_THREADS 16

struct traffic {
  const char *name;
  size_t low, high; /* block sizes */
  size_t slots;     /* blocks in flight */
  uint64_t blocks;  /* in all */
};

static const struct traffic traffics[] = {
    {"tiny", 16, 1024, SLOTS, 800000},
    {"mid", 1025, 64 * KIT_KB, SLOTS, 60000},
    {"large", 64 * KIT_KB + 1, KIT_MB, 24, 4000},
    {"huge", KIT_MB + 1, 4 * KIT_MB, 6, 600},
};

static _Atomic(kit_block) slots[SLOTS];
static const struct traffic *traffic;
static atomic_long to_produce, to_consume;

static void *produce(void *argument) {
  struct kit_rng rng = kit_rng_make((uintptr_t)argument);
  size_t slot = 0;
  while (atomic_fetch_sub(&to_produce, 1) > 0) {
    size_t size = traffic->low + kit_below(&rng, traffic->high - traffic->low + 1);
    kit_block block = kit_block_malloc(size, kit_random(&rng));
    CHECK(block, "malloc(%zu) failed", size);
    for (size_t tries = 1;; ++tries) {
      kit_block empty = 0;
      slot = (slot + 1) % traffic->slots;
      if (atomic_compare_exchange_strong_explicit(&slots[slot], &empty, block, memory_order_release,
                                                  memory_order_relaxed))
        break;
      if (tries % traffic->slots == 0) sched_yield();
    }
  }
  return NULL;
}

static void *consume(void *argument) {
  size_t slot = (uintptr_t)argument;
  while (atomic_fetch_sub(&to_consume, 1) > 0) {
    for (size_t tries = 1;; ++tries) {
      slot = (slot + 1) % traffic->slots;
      kit_block block = 0;
      if (atomic_load_explicit(&slots[slot], memory_order_relaxed))
        block = atomic_exchange_explicit(&slots[slot], 0, memory_order_acquire);
      if (block) {
        kit_block_free(block);
        break;
      }
      if (tries % traffic->slots == 0) sched_yield();
    }
  }
  return NULL;
}

int main(int argc, char **argv) {
  kit_start();
  uintptr_t producers = argc > 2 ? strtoul(argv[1], NULL, 10) : 1;
  uintptr_t consumers = argc > 2 ? strtoul(argv[2], NULL, 10) : 1;
  CHECK(producers + consumers <= MAX_THREADS, "at most %d threads", MAX_THREADS);
  for (size_t t = 0; t < sizeof traffics / sizeof *traffics; ++t) {
    traffic = &traffics[t];
    long blocks = (long)kit_rounds(traffic->blocks);
    size_t mapped = 0;
    /* Two halves by fresh threads: the second must live on what the first gave back. */
    for (int half = 0; half < 2; ++half) {
      atomic_store(&to_produce, blocks / 2 + 1);
      atomic_store(&to_consume, blocks / 2 + 1);
      pthread_t ids[MAX_THREADS];
      for (uintptr_t i = 0; i < producers + consumers; ++i)
        CHECK(pthread_create(&ids[i], NULL, i < producers ? produce : consume, (void *)i) == 0,
              "cannot create thread");
      for (uintptr_t i = 0; i < producers + consumers; ++i) pthread_join(ids[i], NULL);
      mapped = kit_stats().bytes_mapped;
    }
    size_t passed = (size_t)blocks * (traffic->low + traffic->high) / 2;
    size_t bound = 2 * traffic->slots * traffic->high + 96 * KIT_MB;
    printf("%s: %lu producers, %lu consumers: %zu MB passed on, %zu MB mapped (bound %zu)\n",
           traffic->name, (unsigned long)producers, (unsigned long)consumers, passed / KIT_MB,
           mapped / KIT_MB, bound / KIT_MB);
    CHECK(mapped <= bound, "freed memory does not come back to who allocates");
  }
  return 0;
}
