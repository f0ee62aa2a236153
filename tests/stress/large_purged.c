/* Large blocks that come and go in some threads while another gives back all that is free: the purger reads of spans that have left their
 * thread's cache, and of SuperSlabs whose descriptors are used again meanwhile. Above all for ThreadSanitizer. */
#include "kit.h"

#include <pthread.h>
#include <stdatomic.h>

enum { THREADS = 3, BLOCKS = 24, ROUNDS = 10000, LEAST = 70000, MORE = 900000 };

static atomic_bool stop;

static void *work(void *seed) {
  struct kit_rng rng = kit_rng_make((uintptr_t)seed);
  char *blocks[BLOCKS];
  size_t sizes[BLOCKS];
  for (uint64_t round = 0, rounds = kit_rounds(ROUNDS); round < rounds; round++) {
    for (int i = 0; i < BLOCKS; i++) {
      sizes[i] = LEAST + kit_below(&rng, MORE);
      CHECK(blocks[i] = mem_malloc(sizes[i]), "malloc(%zu) failed", sizes[i]);
      blocks[i][0] = blocks[i][sizes[i] - 1] = (char)i;
    }
    for (int i = 0; i < BLOCKS; i++) {
      CHECK(blocks[i][0] == i && blocks[i][sizes[i] - 1] == i, "block %d was written to", i);
      mem_free(blocks[i]);
    }
  }
  return NULL;
}

static void *purge(void *unused) {
  while (!atomic_load(&stop)) kit_purge();
  return unused;
}

int main(void) {
  kit_start();
  pthread_t threads[THREADS], purger;
  for (uintptr_t i = 0; i < THREADS; i++)
    CHECK(pthread_create(&threads[i], NULL, work, (void *)i) == 0, "no thread");
  CHECK(pthread_create(&purger, NULL, purge, NULL) == 0, "no thread");
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  atomic_store(&stop, true);
  pthread_join(purger, NULL);
  return 0;
}
