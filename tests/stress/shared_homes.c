/* More threads than own slabs: each takes and frees small blocks of all classes, its own and others', now and then much of one class at
 * once, so that those who share a home meet at its lock and in its inbox; some end and others begin. Every block keeps what was
 * written to it. */
#include "kit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

enum { THREADS = 44, GENERATIONS = 3, SLOTS = 1024, HELD = 64, BURST = 400, LARGEST = 1100 };

static _Atomic(kit_block) slots[SLOTS];
static uint64_t steps;

static void exchange(struct kit_rng *rng, kit_block block) {
  block = atomic_exchange(&slots[kit_below(rng, SLOTS)], block);
  if (block) kit_block_free(block);
}

static kit_block make(struct kit_rng *rng, size_t size) {
  kit_block block = kit_block_malloc(size, kit_random(rng));
  CHECK(block, "malloc(%zu) failed", size);
  return block;
}

static void burst(struct kit_rng *rng) {
  size_t size = 1 + kit_below(rng, LARGEST);
  kit_block blocks[BURST];
  for (int i = 0; i < BURST; i++) blocks[i] = make(rng, size);
  for (int i = 0; i < BURST; i++)
    if (i % 3 == 0) exchange(rng, blocks[i]);
    else kit_block_free(blocks[i]);
}

static void *work(void *argument) {
  struct kit_rng rng = kit_rng_make((uintptr_t)argument);
  kit_block held[HELD] = {0};
  for (uint64_t step = 0; step < steps; step++) {
    kit_block *place = &held[kit_below(&rng, HELD)];
    if (kit_below(&rng, 500) == 0) burst(&rng);
    if (*place && kit_below(&rng, 4) == 0) exchange(&rng, *place);
    else if (*place) kit_block_free(*place);
    *place = make(&rng, 1 + kit_below(&rng, LARGEST));
  }
  for (int i = 0; i < HELD; i++)
    if (held[i]) kit_block_free(held[i]);
  return NULL;
}

int main(void) {
  kit_start();
  steps = kit_rounds(6000);
  for (uintptr_t generation = 0; generation < GENERATIONS; generation++) {
    pthread_t ids[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
      CHECK(pthread_create(&ids[i], NULL, work, (void *)(generation * THREADS + i + 1)) == 0,
            "cannot create thread");
    for (int i = 0; i < THREADS; i++) pthread_join(ids[i], NULL);
  }
  for (int i = 0; i < SLOTS; i++)
    if (slots[i]) kit_block_free(slots[i]);
  return 0;
}
