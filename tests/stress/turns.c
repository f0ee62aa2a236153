/* Threads that allocate in turn: in each round two of them fill a table, while the others free what was filled in the round before.
 * Then those two only free, or sleep, for many rounds. What they own must be found by the next two, while blocks are still on
 * their way to it: memory may not grow with the number of threads.
 *
 * usage: turns [rounds] */
#include "kit.h"

#include <pthread.h>
#include <stdio.h>

enum { THREADS = 24, ALLOCATE = 2 };
#define SHARE_BYTES (2 * KIT_MB) /* of one that allocates */
#define MOST_BLOCKS (ALLOCATE * SHARE_BYTES / 64)

static kit_block tables[2][MOST_BLOCKS];
static size_t size, share; /* of a block; blocks of one that allocates */
static uint64_t rounds;
static pthread_barrier_t turn;

static bool allocates(uint64_t thread, uint64_t round) {
  return round < rounds && round * ALLOCATE % THREADS == thread / ALLOCATE * ALLOCATE;
}

static void allocate(kit_block *table, uint64_t tag) {
  for (size_t i = 0; i < share; i++) {
    table[i] = kit_block_malloc(size, tag + i);
    CHECK(table[i], "malloc(%zu) failed", size);
  }
}

/* Neighbours are freed by different threads. */
static void release(kit_block *table, size_t first) {
  for (size_t i = first; i < ALLOCATE * share; i += THREADS - ALLOCATE) kit_block_free(table[i]);
}

static void *work(void *argument) {
  uint64_t thread = (uintptr_t)argument;
  for (uint64_t round = 0; round <= rounds; round++) {
    kit_block *fill = tables[round % 2], *empty = tables[(round + 1) % 2];
    uint64_t first = round * ALLOCATE % THREADS; /* of those that allocate now */
    if (allocates(thread, round))
      allocate(fill + thread % ALLOCATE * share, (round * THREADS + thread) * MOST_BLOCKS);
    else if (round > 0 && (round < rounds || thread >= ALLOCATE))
      release(empty,
              round < rounds ? (thread - first + THREADS) % THREADS - ALLOCATE : thread - ALLOCATE);
    pthread_barrier_wait(&turn);
  }
  return NULL;
}

static void test_size(size_t bytes) {
  pthread_t threads[THREADS];
  size = bytes;
  share = SHARE_BYTES / bytes;
  size_t before = kit_stats().bytes_mapped;
  for (uintptr_t i = 0; i < THREADS; i++)
    CHECK(pthread_create(&threads[i], NULL, work, (void *)i) == 0, "cannot create thread");
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  size_t after = kit_stats().bytes_mapped;
  /* Two tables, and something that stays with each that sleeps. If nobody found what they own, each would keep its share: 48 MiB. */
  size_t bound = before + 2 * ALLOCATE * SHARE_BYTES + THREADS * 768 * KIT_KB;
  printf("%zu B: mapped before %zu MB, after %zu (bound %zu)\n", bytes, before / KIT_MB,
         after / KIT_MB, bound / KIT_MB);
  CHECK(after <= bound, "the memory of sleeping owners piles up");
}

int main(int argc, char **argv) {
  kit_start();
  rounds = argc > 1 ? strtoull(argv[1], NULL, 10) : kit_rounds(4 * THREADS);
  if (rounds < 2 * THREADS / ALLOCATE)
    rounds = 2 * THREADS / ALLOCATE; /* with fewer, the bound says nothing */
  pthread_barrier_init(&turn, NULL, THREADS);
  test_size(64);
  test_size(1000);
  test_size(4000);
  return 0;
}
