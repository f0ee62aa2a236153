/* Memory that came to rest where its thread does not look: it has to go back though nobody calls the allocator any
 * more for it.
 *
 * usage: at_rest inbox|busy   300 MB of one thread, freed by another; the owner sleeps, or works in another class
 *        at_rest ended        300 MB of 40 threads, which have ended when the blocks are freed; another one sleeps
 *        at_rest ended-calls  the same; the thread that freed them goes on with a few small blocks
 *        at_rest ended-alone  300 MB of one thread, which has ended when the first thread frees the blocks: it is the only one then, has no
 *                             helper, and makes no call afterwards
 *        at_rest cached       40 threads that have freed 8 blocks of 1 MB each, and sleep
 *        at_rest cached-short 32 threads, 8 blocks of 362 KB
 *        at_rest cached-one   100 threads with one such block each, freed by all at once, then allocated and freed by one after the other
 *        at_rest bins         100 threads, 40 blocks each of 1 to 60 KiB
 *        at_rest classes MB   40 threads that have used each size class, and sleep: the process holds at most so much
 *        at_rest classes-in-turn MB  the same, each after the one before, as on a machine that has other work
 *        at_rest crowd        2,000 threads, 40 blocks each of 16 to 796 bytes
 *        at_rest ring         200 threads in a ring: each frees small blocks of the next one
 *        at_rest little       a thread that has freed 3.5 of 7 MB, and sleeps
 *        at_rest little-of-main  the same by the first thread, whose heap was there before the others'
 *        at_rest before-threads  300 MB that the first thread has freed before there was a second, by which it waits: a service that has
 *                             loaded its data
 *        at_rest before-others  the same, and the threads that it starts do not allocate, but it does */
#include "kit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCKS = 300 << 10, SIZE = 1 << 10, WAIT_SECONDS = 20, MOST_MB = 40, BEFORE_MOST_MB = 80 };

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

/* A program that does little: 100 blocks in 10 ms. */
static void a_few_calls(void) {
  for (int i = 0; i < 100; i++) mem_free(mem_malloc(100));
  usleep(10000);
}

static bool calls_on;

static void come_to_rest(size_t most_mb) {
  size_t resident = kit_resident();
  for (unsigned i = 0; i < WAIT_SECONDS * 10 && resident > most_mb * KIT_MB; i++) {
    if (!calls_on) usleep(100000);
    for (int j = 0; calls_on && j < 10; j++) a_few_calls();
    resident = kit_resident();
  }
  printf("%zu MB resident\n", resident / KIT_MB);
  CHECK(resident <= most_mb * KIT_MB, "more than %zu MB stay resident", most_mb);
  atomic_store(&done, true);
}

enum { ENDED_THREADS = 40 };

static void *fill_part(void *number) {
  for (size_t i = (uintptr_t)number; i < BLOCKS; i += ENDED_THREADS) {
    CHECK(blocks[i] = mem_malloc(SIZE), "malloc failed");
    memset(blocks[i], 1, SIZE);
  }
  pthread_barrier_wait(&all_filled); /* so that each has a heap of its own */
  return NULL;
}

static void *allocate_and_sleep(void *unused) {
  mem_free(mem_malloc(SIZE));
  while (!atomic_load(&done)) usleep(10000);
  return unused;
}

static void *sleep_to_the_end(void *unused) {
  while (!atomic_load(&done)) usleep(10000);
  return unused;
}

static void *fill_all(void *unused) {
  for (size_t i = 0; i < BLOCKS; i++) {
    CHECK(blocks[i] = mem_malloc(SIZE), "malloc failed");
    memset(blocks[i], 1, SIZE);
  }
  return unused;
}

static int ended_alone(void) {
  pthread_t id;
  CHECK(pthread_create(&id, NULL, fill_all, NULL) == 0, "cannot create thread");
  pthread_join(id, NULL);
  for (size_t i = 0; i < BLOCKS; i++) mem_free(blocks[i]);
  come_to_rest(MOST_MB);
  return 0;
}

static int ended(void) {
  pthread_t ids[ENDED_THREADS], other;
  bool with_other = !calls_on;
  if (with_other)
    CHECK(pthread_create(&other, NULL, allocate_and_sleep, NULL) == 0, "cannot create thread");
  pthread_barrier_init(&all_filled, NULL, ENDED_THREADS);
  for (uintptr_t i = 0; i < ENDED_THREADS; i++)
    CHECK(pthread_create(&ids[i], NULL, fill_part, (void *)i) == 0, "cannot create thread");
  for (unsigned i = 0; i < ENDED_THREADS; i++) pthread_join(ids[i], NULL);
  for (size_t i = 0; i < BLOCKS; i++) mem_free(blocks[i]);
  come_to_rest(MOST_MB);
  if (with_other) pthread_join(other, NULL);
  return 0;
}

/* --- what was free before there were threads ----------------------------------------------------------------------- */

/* All but the first of so many side by side, so that most pages are free, and no slab. */
enum { RUN = 32, WORKERS = 4 };

static int before_threads(bool workers_allocate) {
  pthread_t ids[WORKERS];
  for (size_t i = 0; i < BLOCKS; i++) {
    CHECK(blocks[i] = mem_malloc(SIZE), "malloc failed");
    memset(blocks[i], 1, SIZE);
  }
  for (size_t i = 0; i < BLOCKS; i++)
    if (i % RUN != 0) mem_free(blocks[i]);
  size_t resident = kit_resident();
  printf("%zu MB resident before there are threads\n", resident / KIT_MB);
  CHECK(resident > 2 * BEFORE_MOST_MB * KIT_MB, "there is too little to give back");
  for (int i = 0; i < WORKERS; i++)
    CHECK(pthread_create(&ids[i], NULL, workers_allocate ? allocate_and_sleep : sleep_to_the_end,
                         NULL) == 0,
          "cannot create thread");
  for (int i = 0; !workers_allocate && i < 10; i++) CHECK(mem_malloc(SIZE << i), "malloc failed");
  come_to_rest(BEFORE_MOST_MB);
  for (int i = 0; i < WORKERS; i++) pthread_join(ids[i], NULL);
  return 0;
}

static int cached(unsigned threads, size_t size) {
  pthread_t ids[THREADS_MOST];
  cached_size = size;
  pthread_barrier_init(&all_filled, NULL, threads);
  for (unsigned i = 0; i < threads; i++)
    CHECK(pthread_create(&ids[i], NULL, fill_cache, NULL) == 0, "cannot create thread");
  while (atomic_load(&freed) < threads) usleep(1000);
  come_to_rest(MOST_MB);
  for (unsigned i = 0; i < threads; i++) pthread_join(ids[i], NULL);
  return 0;
}

enum { ONE_THREADS = 100, ONE_SIZE = 1000000 };

static atomic_uint turn; /* the thread that is the next to do so once more */

static void free_one(void) {
  char *block = mem_malloc(ONE_SIZE);
  CHECK(block, "malloc failed");
  memset(block, 1, ONE_SIZE);
  mem_free(block);
  atomic_fetch_add(&freed, 1);
}

static void *free_one_twice(void *number) {
  free_one();
  while (atomic_load(&turn) != (uintptr_t)number) usleep(10000);
  free_one();
  atomic_store(&turn, (unsigned)(uintptr_t)number + 1);
  while (!atomic_load(&done)) usleep(10000);
  return NULL;
}

static int cached_one(void) {
  pthread_t ids[ONE_THREADS];
  atomic_store(&turn, ONE_THREADS);
  for (uintptr_t i = 0; i < ONE_THREADS; i++)
    CHECK(pthread_create(&ids[i], NULL, free_one_twice, (void *)i) == 0, "cannot create thread");
  while (atomic_load(&freed) < ONE_THREADS) usleep(1000);
  come_to_rest(MOST_MB);
  atomic_store(&done, false);
  atomic_store(&turn, 0);
  while (atomic_load(&freed) < 2 * ONE_THREADS) usleep(1000);
  come_to_rest(MOST_MB);
  for (unsigned i = 0; i < ONE_THREADS; i++) pthread_join(ids[i], NULL);
  return 0;
}

/* --- many threads with little each ------------------------------------------------------------------------ */

/* A thread at rest keeps a quarter of a MB at most; beside it there are the program, and descriptors. */
enum { THREADS_A_MB = 4, MOST_MB_BESIDE = 6 };
enum { BIN_THREADS = 100, BIN_BLOCKS = 40, BIN_LEAST = 1 << 10, BIN_MOST = 60 << 10 };
enum { RING_THREADS = 200, RING_BLOCKS = 300, RING_LEAST = 16, RING_MOST = 512, RING_ROUNDS = 10 };

static char *of_ring[RING_THREADS][RING_BLOCKS];

static char *filled_block(struct kit_rng *random, size_t least, size_t most) {
  size_t size = least + kit_below(random, most - least);
  char *block = mem_malloc(size);
  CHECK(block, "malloc failed");
  memset(block, 1, size);
  return block;
}

static void sleep_until_done(void) {
  atomic_fetch_add(&freed, 1);
  while (!atomic_load(&done)) usleep(10000);
}

static void *fill_bins(void *number) {
  struct kit_rng random = kit_rng_make((uintptr_t)number);
  char *mine[BIN_BLOCKS];
  for (int i = 0; i < BIN_BLOCKS; i++) mine[i] = filled_block(&random, BIN_LEAST, BIN_MOST);
  pthread_barrier_wait(&all_filled);
  for (int i = 0; i < BIN_BLOCKS; i++) mem_free(mine[i]);
  sleep_until_done();
  return NULL;
}

static void *go_round(void *number) {
  uintptr_t me = (uintptr_t)number;
  struct kit_rng random = kit_rng_make(me);
  for (int round = 0; round < RING_ROUNDS; round++) {
    for (int i = 0; i < RING_BLOCKS; i++)
      of_ring[me][i] = filled_block(&random, RING_LEAST, RING_MOST);
    pthread_barrier_wait(&all_filled);
    for (int i = 0; i < RING_BLOCKS; i++) mem_free(of_ring[(me + 1) % RING_THREADS][i]);
    pthread_barrier_wait(&all_filled);
  }
  sleep_until_done();
  return NULL;
}

/* 0.35 MB each, the least that a thread may keep of all classes, are 14 MB; 0.8 to 1.7 where each thread owns slabs (docs/decisions/0040). */
enum { CLASS_THREADS = 40, CLASS_BLOCKS = 8 };

static void *use_classes(void *unused) {
  char *mine[CLASS_BLOCKS];
  for (size_t size = 16; size <= 64 * KIT_KB; size += size / 16 + 1) {
    for (int i = 0; i < CLASS_BLOCKS; i++) {
      CHECK(mine[i] = mem_malloc(size), "malloc failed");
      memset(mine[i], 1, size);
    }
    for (int i = 0; i < CLASS_BLOCKS; i++) mem_free(mine[i]);
  }
  sleep_until_done();
  return unused;
}

/* Stacks and all: it was 176 MB while each thread's first refill of a class took a page. */
enum { CROWD_THREADS = 2000, CROWD_BLOCKS = 40, CROWD_STEP = 20, CROWD_MOST_MB = 110 };

static void *fill_little(void *unused) {
  char *mine[CROWD_BLOCKS];
  for (size_t i = 0; i < CROWD_BLOCKS; i++) {
    size_t size = 16 + i * CROWD_STEP;
    CHECK(mine[i] = mem_malloc(size), "malloc failed");
    memset(mine[i], 1, size);
  }
  for (size_t i = 0; i < CROWD_BLOCKS; i++) mem_free(mine[i]);
  sleep_until_done();
  return unused;
}

static bool in_turn;

static int many(unsigned threads, void *(*work)(void *), size_t most_mb) {
  static pthread_t ids[CROWD_THREADS];
  pthread_barrier_init(&all_filled, NULL, threads);
  for (uintptr_t i = 0; i < threads; i++) {
    CHECK(pthread_create(&ids[i], NULL, work, (void *)i) == 0, "cannot create thread");
    while (in_turn && atomic_load(&freed) <= i) usleep(100);
  }
  while (atomic_load(&freed) < threads) usleep(1000);
  come_to_rest(most_mb);
  for (unsigned i = 0; i < threads; i++) pthread_join(ids[i], NULL);
  return 0;
}

/* --- a thread with little ------------------------------------------------------------------------------------- */

/* One in so many lives on, so that slabs stay, and give pages back. */
enum { LITTLE_BLOCKS = 7000, LITTLE_MOST_MB = 7, LITTLE_LIVES = 61 };

static void fill_and_free_half(void) {
  for (size_t i = 0; i < LITTLE_BLOCKS; i++) {
    CHECK(blocks[i] = mem_malloc(SIZE), "malloc failed");
    memset(blocks[i], 1, SIZE);
  }
  for (size_t i = 0; i < LITTLE_BLOCKS / 2; i++)
    if (i % LITTLE_LIVES != 0) mem_free(blocks[i]);
}

static void *free_half(void *unused) {
  fill_and_free_half();
  sleep_until_done();
  return unused;
}

static void *only_sleep(void *unused) {
  mem_free(mem_malloc(SIZE));
  sleep_until_done();
  return unused;
}

static int little_of_main(void) {
  pthread_t id;
  mem_free(mem_malloc(SIZE));
  CHECK(pthread_create(&id, NULL, only_sleep, NULL) == 0, "cannot create thread");
  while (atomic_load(&freed) == 0) usleep(1000);
  fill_and_free_half();
  come_to_rest(LITTLE_MOST_MB);
  pthread_join(id, NULL);
  return 0;
}

static int little(void) {
  pthread_t id;
  CHECK(pthread_create(&id, NULL, free_half, NULL) == 0, "cannot create thread");
  while (atomic_load(&freed) == 0) usleep(1000);
  come_to_rest(LITTLE_MOST_MB);
  pthread_join(id, NULL);
  return 0;
}

int main(int argc, char **argv) {
  kit_start();
  const char *mode = argc >= 2 ? argv[1] : "";
  calls_on = strcmp(mode, "ended-calls") == 0;
  if (calls_on || strcmp(mode, "ended") == 0) return ended();
  if (strcmp(mode, "ended-alone") == 0) return ended_alone();
  if (strcmp(mode, "cached") == 0) return cached(40, 1000000);
  if (strcmp(mode, "cached-one") == 0) return cached_one();
  if (strcmp(mode, "cached-short") == 0) return cached(32, 362 * KIT_KB);
  if (strcmp(mode, "bins") == 0)
    return many(BIN_THREADS, fill_bins, BIN_THREADS / THREADS_A_MB + MOST_MB_BESIDE);
  if (strcmp(mode, "ring") == 0)
    return many(RING_THREADS, go_round, RING_THREADS / THREADS_A_MB + MOST_MB_BESIDE);
  in_turn = strcmp(mode, "classes-in-turn") == 0;
  if ((in_turn || strcmp(mode, "classes") == 0) && argc == 3)
    return many(CLASS_THREADS, use_classes, strtoul(argv[2], NULL, 10));
  if (strcmp(mode, "crowd") == 0) return many(CROWD_THREADS, fill_little, CROWD_MOST_MB);
  if (strcmp(mode, "little") == 0) return little();
  if (strcmp(mode, "little-of-main") == 0) return little_of_main();
  if (strcmp(mode, "before-threads") == 0) return before_threads(true);
  if (strcmp(mode, "before-others") == 0) return before_threads(false);
  busy = strcmp(mode, "busy") == 0;
  pthread_t owner;
  pthread_barrier_init(&filled, NULL, 2);
  CHECK(pthread_create(&owner, NULL, own, NULL) == 0, "cannot create thread");
  pthread_barrier_wait(&filled);
  for (size_t i = 0; i < BLOCKS; i++) mem_free(blocks[i]);
  come_to_rest(MOST_MB);
  pthread_join(owner, NULL);
  return 0;
}
