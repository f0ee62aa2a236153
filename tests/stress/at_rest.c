/* Memory that came to rest where its thread does not look: it has to go back though nobody calls the allocator any
 * more for it.
 *
 * usage: at_rest inbox|busy   300 MB of one thread, freed by another; the owner sleeps, or works in another class
 *        at_rest cached       40 threads that have freed 8 blocks of 1 MB each, and sleep
 *        at_rest cached-short 32 threads, 8 blocks of 362 KB */
#include "kit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { BLOCKS = 300 << 10, SIZE = 1 << 10, WAIT_SECONDS = 20, MOST_MB = 40 };

static void *blocks[BLOCKS];
static pthread_barrier_t filled;
static atomic_bool done;
static bool busy;

enum { THREADS_MOST = 40, CACHED = 8 };
static size_t cached_size;
static pthread_barrier_t all_filled;
static atomic_uint freed; /* threads that have freed theirs */

/* All hold their blocks at once before any is freed. */
static void *fill_cache(void *unused) {
  char *large[CACHED];
  for (int i = 0; i < CACHED; i++) {
    CHECK(large[i] = mem_malloc(cached_size), "malloc failed");
    memset(large[i], 1, cached_size);
  }
  pthread_barrier_wait(&all_filled);
  for (int i = 0; i < CACHED; i++) mem_free(large[i]);
  atomic_fetch_add(&freed, 1);
  while (!atomic_load(&done)) usleep(10000);
  return unused;
}

static void *own(void *unused) {
  (void)unused;
  for (size_t i = 0; i < BLOCKS; i++) {
    blocks[i] = mem_malloc(SIZE);
    CHECK(blocks[i], "malloc failed");
    memset(blocks[i], 1, SIZE);
  }
  pthread_barrier_wait(&filled);
  while (!atomic_load(&done)) {
    void *others[512];
    for (size_t i = 0; busy && i < 512; i++) others[i] = mem_malloc(64);
    for (size_t i = 0; busy && i < 512; i++) mem_free(others[i]);
    usleep(10000);
  }
  return NULL;
}

static void come_to_rest(void) {
  size_t resident = kit_resident();
  for (unsigned i = 0; i < WAIT_SECONDS * 10 && resident > MOST_MB * KIT_MB; i++) {
    usleep(100000);
    resident = kit_resident();
  }
  printf("%zu MB resident\n", resident / KIT_MB);
  CHECK(resident <= MOST_MB * KIT_MB, "more than %d MB stay resident", MOST_MB);
  atomic_store(&done, true);
}

static int cached(unsigned threads, size_t size) {
  pthread_t ids[THREADS_MOST];
  cached_size = size;
  pthread_barrier_init(&all_filled, NULL, threads);
  for (unsigned i = 0; i < threads; i++)
    CHECK(pthread_create(&ids[i], NULL, fill_cache, NULL) == 0, "cannot create thread");
  while (atomic_load(&freed) < threads) usleep(1000);
  come_to_rest();
  for (unsigned i = 0; i < threads; i++) pthread_join(ids[i], NULL);
  return 0;
}

int main(int argc, char **argv) {
  kit_start();
  const char *mode = argc == 2 ? argv[1] : "";
  if (strcmp(mode, "cached") == 0) return cached(40, 1000000);
  if (strcmp(mode, "cached-short") == 0) return cached(32, 362 * KIT_KB);
  busy = strcmp(mode, "busy") == 0;
  pthread_t owner;
  pthread_barrier_init(&filled, NULL, 2);
  CHECK(pthread_create(&owner, NULL, own, NULL) == 0, "cannot create thread");
  pthread_barrier_wait(&filled);
  for (size_t i = 0; i < BLOCKS; i++) mem_free(blocks[i]);
  come_to_rest();
  pthread_join(owner, NULL);
  return 0;
}
