/* bounded_refill.c - one malloc does not clear up after all others.
 *
 * A thread frees 128 MB of the main thread's blocks, in any order, and stays. The main thread then asks for blocks of another size: before it takes new
 * memory it puts some of what waits back into slabs. No call gives up more than a few SuperSlabs on the way, each of which takes 0.1 ms and more.
 *
 * There is no helper thread (HAKMEM_BACKGROUND=0), so whatever goes is the call's own work. */
#include "kit.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum {
  BLOCKS = 4000,
  SIZE = 32 << 10,
  CALLS = 2000,
  OTHER_SIZE = 3000,
  UNIT = 2 << 20,
  UNITS_A_CALL = 8
};

static char *blocks[BLOCKS];
static pthread_barrier_t barrier;

static void *free_and_stay(void *unused) {
  for (unsigned i = 0; i < BLOCKS; i++) mem_free(blocks[i]);
  pthread_barrier_wait(&barrier);
  pthread_barrier_wait(&barrier);
  return unused;
}

static void make_blocks(void) {
  struct kit_rng rng = kit_rng_make(1);
  for (unsigned i = 0; i < BLOCKS; i++) {
    CHECK(blocks[i] = mem_malloc(SIZE), "malloc failed");
    memset(blocks[i], 1, SIZE);
  }
  for (unsigned i = BLOCKS; i > 1; i--) {
    size_t other = kit_below(&rng, i);
    char *block = blocks[i - 1];
    blocks[i - 1] = blocks[other];
    blocks[other] = block;
  }
}

int main(void) {
  kit_start();
  pthread_t thread;
  size_t most = 0;
  make_blocks();
  pthread_barrier_init(&barrier, NULL, 2);
  CHECK(pthread_create(&thread, NULL, free_and_stay, NULL) == 0, "no thread");
  pthread_barrier_wait(&barrier);
  size_t before = kit_stats().bytes_mapped, start = before;
  for (unsigned i = 0; i < CALLS; i++) {
    CHECK(blocks[i] = mem_malloc(OTHER_SIZE), "malloc failed");
    size_t after = kit_stats().bytes_mapped;
    if (after < before && before - after > most) most = before - after;
    before = after;
  }
  printf("%zu MB mapped, then %zu; at most %zu MB in a call\n", start / KIT_MB, before / KIT_MB,
         most / KIT_MB);
  CHECK(before < start, "nothing of it was put back"); /* else this tests nothing */
  CHECK(most <= (size_t)UNITS_A_CALL * UNIT, "one call has given up too much");
  pthread_barrier_wait(&barrier);
  pthread_join(thread, NULL);
  return 0;
}
