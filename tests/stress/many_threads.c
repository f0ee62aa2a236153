/* 256 threads alive at once, each with a few small blocks: what a thread costs in resident memory
 * and in address space stays small.
 *
 * usage: many_threads [threads] */
#include "kit.h"

#include <pthread.h>
#include <stdio.h>

#define MAX_THREADS 4096
#define BLOCKS 32 /* of each of four sizes: 43 KiB a thread */

static pthread_barrier_t ready, done;
static const size_t sizes[] = {16, 64, 256, 1000};

static void *work(void *argument) {
  kit_block blocks[4][BLOCKS];
  for (size_t s = 0; s < 4; ++s)
    for (size_t i = 0; i < BLOCKS; ++i) {
      blocks[s][i] = kit_block_malloc(sizes[s], (uintptr_t)argument * BLOCKS + i);
      CHECK(blocks[s][i], "malloc(%zu) failed", sizes[s]);
    }
  pthread_barrier_wait(&ready);
  pthread_barrier_wait(&done);
  for (size_t s = 0; s < 4; ++s)
    for (size_t i = 0; i < BLOCKS; ++i) kit_block_free(blocks[s][i]);
  return NULL;
}

int main(int argc, char **argv) {
  kit_start();
  size_t threads = argc > 1 ? strtoul(argv[1], NULL, 10) : 256;
  CHECK(threads <= MAX_THREADS, "at most %d threads", MAX_THREADS);
  static pthread_t ids[MAX_THREADS];
  pthread_barrier_init(&ready, NULL, (unsigned)threads + 1);
  pthread_barrier_init(&done, NULL, (unsigned)threads + 1);
  size_t resident_before = kit_resident();
  size_t mapped_before = kit_stats().bytes_mapped;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 256 * KIT_KB);
  for (size_t i = 0; i < threads; ++i)
    CHECK(pthread_create(&ids[i], &attributes, work, (void *)(uintptr_t)i) == 0,
          "cannot create thread %zu", i);
  pthread_attr_destroy(&attributes);
  pthread_barrier_wait(&ready);
  struct hak_stats stats = kit_stats();
  size_t resident = (kit_resident() - resident_before) / threads;
  size_t mapped = (stats.bytes_mapped - mapped_before) / threads;
  printf("%zu threads alive: each %zu KB resident, %zu KB mapped; %lu heaps active\n", threads,
         resident / KIT_KB, mapped / KIT_KB, (unsigned long)stats.heaps_active);
  pthread_barrier_wait(&done);
  for (size_t i = 0; i < threads; ++i) pthread_join(ids[i], NULL);
  kit_purge();
  struct hak_stats after = kit_stats();
  printf("all ended: %lu superslabs live, heaps %lu active + %lu parked\n",
         (unsigned long)after.superslabs_live, (unsigned long)after.heaps_active,
         (unsigned long)after.heaps_parked);
  /* 43 KiB of blocks, about 16 KiB of stack and thread control block, the heap itself, and pages
   * partly used in four slabs. */
  CHECK(KIT_SANITIZED || resident <= 128 * KIT_KB, "a thread costs too much memory");
  CHECK(mapped <= KIT_MB, "a thread costs too much address space");
  CHECK(after.superslabs_live <= 4, "superslabs of ended threads are left");
  /* The main thread has a heap only if it allocated here: not with hak_* alone. */
  CHECK(after.heaps_active <= 1, "heaps of ended threads are still active");
  return 0;
}
