/* Threads that allocate and then sleep for ever, while others free their blocks: each round a new
 * one. What the sleepers no longer use must be found by the next: memory may not grow with the
 * rounds.
 *
 * usage: sleeping_owner [rounds] */
#include "kit.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>

#define ROUND_BYTES (4 * KIT_MB)
#define MAX_BLOCKS (ROUND_BYTES / 64)
#define WARM_UP 8
/* With fewer rounds, the bound says nothing: of 256 MiB it lets 44 pass, of the 128 under an emulator 28. */
#ifdef KIT_EMULATED
#define LEAST 32
#else
#define LEAST 64
#endif

static kit_block blocks[MAX_BLOCKS];
static size_t block_size;
static sem_t filled, never;

static void *own(void *argument) {
  uint64_t round = (uintptr_t)argument;
  for (size_t i = 0; i < ROUND_BYTES / block_size; ++i) {
    blocks[i] = kit_block_malloc(block_size, round * MAX_BLOCKS + i);
    CHECK(blocks[i], "malloc(%zu) failed", block_size);
  }
  sem_post(&filled);
  while (sem_wait(&never) != 0) continue;
  return NULL;
}

static void test_size(size_t size, uint64_t rounds) {
  block_size = size;
  size_t before = kit_stats().bytes_mapped;
  size_t warm = 0;
  for (uint64_t round = 0; round < rounds; ++round) {
    pthread_t id;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 256 * KIT_KB);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    CHECK(pthread_create(&id, &attributes, own, (void *)(uintptr_t)round) == 0,
          "cannot create thread");
    pthread_attr_destroy(&attributes);
    while (sem_wait(&filled) != 0) continue;
    for (size_t i = 0; i < ROUND_BYTES / size; ++i) kit_block_free(blocks[i]);
    if (round == WARM_UP - 1) warm = kit_stats().bytes_mapped;
  }
  size_t after = kit_stats().bytes_mapped;
  size_t total = rounds * ROUND_BYTES;
  /* Up to 512 KiB may stay with each sleeper (inbox below the size that is worth taking, slabs
   * partly used), an eighth of what each one allocated. */
  size_t bound = warm + (rounds - WARM_UP) * 512 * KIT_KB + 16 * KIT_MB;
  printf(
      "%zu B: %lu sleepers x %zu MB = %zu MB; mapped before %zu, warm %zu, after %zu (bound %zu)\n",
      size, (unsigned long)rounds, ROUND_BYTES / KIT_MB, total / KIT_MB, before / KIT_MB,
      warm / KIT_MB, after / KIT_MB, bound / KIT_MB);
  CHECK(after <= bound, "the memory of sleeping owners piles up");
}

int main(int argc, char **argv) {
  kit_start();
  uint64_t rounds = argc > 1 ? strtoull(argv[1], NULL, 10) : kit_rounds(LEAST);
  if (rounds < LEAST) rounds = LEAST;
  sem_init(&filled, 0, 0);
  sem_init(&never, 0, 0);
  test_size(64, rounds);
  test_size(1000, rounds);
  test_size(8 * KIT_KB, rounds);
  test_size(60 * KIT_KB, rounds);
  test_size(256 * KIT_KB, rounds);
  test_size(2 * KIT_MB, rounds);
  return 0;
}
