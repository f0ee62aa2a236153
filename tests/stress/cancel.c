/* Threads are cancelled while they allocate. malloc and free are no cancellation points: a thread that
 * ended inside of one would leave a lock held or a block lost. Each thread says when it is inside, and
 * its clean-up handler looks.
 *
 * usage: cancel [threads] */
#include "kit.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#define WAVE 4
#define OWN 32

struct worker {
  pthread_t id;
  atomic_bool running;
  bool inside; /* between the call of an allocator function and its return */
  kit_block own[OWN];
  uint64_t number;
};

static atomic_ulong cleaned;

static void clean(void *argument) {
  struct worker *worker = argument;
  CHECK(!worker->inside, "a thread was cancelled inside malloc, realloc or free");
  for (size_t i = 0; i < OWN; ++i) kit_block_free(worker->own[i]);
  atomic_fetch_add(&cleaned, 1);
}

static void *work(void *argument) {
  struct worker *worker = argument;
  struct kit_rng rng = kit_rng_make(worker->number);
  pthread_cleanup_push(clean, worker);
  atomic_store(&worker->running, true);
  for (;;) {
    worker->inside = true;
    /* The cancellation comes somewhere in here and may take effect only below. */
    for (int i = 0; i < 50; ++i) {
      kit_block *own = &worker->own[kit_below(&rng, OWN)];
      if (*own) {
        kit_block_free(*own);
        *own = 0;
      } else {
        *own = kit_block_any(&rng, kit_any_size(&rng));
        CHECK(*own, "malloc failed");
      }
    }
    kit_purge();
    worker->inside = false;
    pthread_testcancel();
  }
  pthread_cleanup_pop(1);
  return NULL;
}

int main(int argc, char **argv) {
  kit_start();
  kit_watchdog(120);
  uint64_t threads = argc > 1 ? strtoull(argv[1], NULL, 10) : kit_rounds(800);
  static struct worker workers[WAVE];
  for (uint64_t first = 0; first < threads; first += WAVE) {
    for (size_t i = 0; i < WAVE; ++i) {
      workers[i] = (struct worker){.number = first + i};
      CHECK(pthread_create(&workers[i].id, NULL, work, &workers[i]) == 0, "cannot create thread");
    }
    for (size_t i = 0; i < WAVE; ++i)
      while (!atomic_load(&workers[i].running)) sched_yield();
    usleep(500 + first % 16 * 100);
    for (size_t i = 0; i < WAVE; ++i) pthread_cancel(workers[i].id);
    for (size_t i = 0; i < WAVE; ++i) pthread_join(workers[i].id, NULL);
  }
  kit_purge();
  struct hak_stats stats = kit_stats();
  printf("%lu threads cancelled: left %lu KiB of slabs, heaps %lu active + %lu parked\n",
         (unsigned long)cleaned, (unsigned long)(stats.bytes_slab / 1024),
         (unsigned long)stats.heaps_active, (unsigned long)stats.heaps_parked);
  CHECK(cleaned >= threads, "a clean-up handler did not run");
  /* What libc keeps of threads lies in half a dozen slabs, and in as many SuperSlabs where it so happens. */
  CHECK(stats.bytes_slab <= (1 << 20), "slabs of cancelled threads are left");
  CHECK(stats.heaps_active <= 1, "heaps of cancelled threads are still active");
  return 0;
}
