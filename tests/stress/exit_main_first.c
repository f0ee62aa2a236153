/* The main thread leaves by pthread_exit while others live on its blocks. They free them, go on
 * allocating, and the last one finds main's heap given back and ends the process. */
#include "kit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#define THREADS 4
#define SLOTS 1024

static _Atomic(kit_block) slots[SLOTS];
static pthread_t main_thread, ids[THREADS];

static void work(uint64_t stream) {
  struct kit_rng rng = kit_rng_make(stream);
  for (uint64_t i = 0; i < kit_rounds(100000); ++i) {
    kit_block block = 0;
    if (kit_random(&rng) & 1) {
      block = kit_block_any(&rng, kit_any_size(&rng));
      CHECK(block, "malloc failed");
    }
    kit_block_free(atomic_exchange(&slots[kit_below(&rng, SLOTS)], block));
  }
}

static void *follow(void *argument) {
  work((uintptr_t)argument);
  return NULL;
}

static void *lead(void *argument) {
  (void)argument;
  /* TSan does not know how to join the main thread; there the pause below has to do. */
  if (!KIT_TSAN) CHECK(pthread_join(main_thread, NULL) == 0, "cannot join the main thread");
  work(0);
  CHECK(kit_memory_stats().resident > 0, "nothing is resident once the main thread has ended");
  for (size_t i = 1; i < THREADS; ++i) pthread_join(ids[i], NULL);
  for (size_t i = 0; i < SLOTS; ++i) kit_block_free(atomic_exchange(&slots[i], 0));
  for (int i = 0; i < 100 && kit_stats().heaps_active > 1; ++i) usleep(50000);
  kit_purge();
  struct hak_stats stats = kit_stats();
  printf("main ended first: left %lu superslabs, heaps %lu active + %lu parked\n",
         (unsigned long)stats.superslabs_live, (unsigned long)stats.heaps_active,
         (unsigned long)stats.heaps_parked);
  CHECK(stats.superslabs_live <= 4, "superslabs of ended threads are left");
  CHECK(stats.heaps_active == 1, "main's heap is still active");
  exit(0);
}

static void *leave(void *argument) { pthread_exit(argument); }

int main(void) {
  kit_start();
  kit_watchdog(120);
  /* The first pthread_exit loads libgcc: here, so that what the loader keeps does not lie among the
   * blocks that are counted. */
  CHECK(pthread_create(&ids[0], NULL, leave, NULL) == 0, "cannot create thread");
  pthread_join(ids[0], NULL);
  struct kit_rng rng = kit_rng_make(99);
  for (size_t i = 0; i < SLOTS; ++i) {
    slots[i] = kit_block_any(&rng, kit_any_size(&rng));
    CHECK(slots[i], "malloc failed");
  }
  main_thread = pthread_self();
  for (uintptr_t i = 1; i < THREADS; ++i)
    CHECK(pthread_create(&ids[i], NULL, follow, (void *)i) == 0, "cannot create thread");
  CHECK(pthread_create(&ids[0], NULL, lead, NULL) == 0, "cannot create thread");
  pthread_exit(NULL);
}
