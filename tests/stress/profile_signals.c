/* A storm of SIGPROF, from the profiling timer and from a thread that signals the workers in turn.
 * The handler does not allocate but gives the processor away, so that threads are stopped in the
 * middle of the slow paths, with locks held and lists half changed, while others want the same.
 *
 * usage: profile_signals [operations-per-thread] */
#include "kit.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/time.h>

#define WORKERS 3
#define SHARED 128
#define FEWEST_SIGNALS 500 /* with fewer, little was tested */

static _Atomic(kit_block) shared[SHARED];
static atomic_ulong signals_seen;
static atomic_int working = WORKERS;
static uint64_t operations;
static pthread_t ids[WORKERS];
static pthread_barrier_t started, finished;

static void on_profile(int signal_number) {
  (void)signal_number;
  int saved = errno;
  if (atomic_fetch_add(&signals_seen, 1) & 1) sched_yield();
  errno = saved;
}

static void *work(void *argument) {
  struct kit_rng rng = kit_rng_make((uintptr_t)argument);
  pthread_barrier_wait(&started);
  for (uint64_t i = 0; i < operations || atomic_load(&signals_seen) < FEWEST_SIGNALS; ++i) {
    /* Few blocks of many sizes: most operations leave the fast path. */
    kit_block block = 0;
    if (kit_random(&rng) & 1) {
      block = kit_block_any(&rng, kit_tier_size(&rng, (enum kit_tier)kit_below(&rng, KIT_HUGE)));
      CHECK(block, "malloc failed");
    }
    kit_block_free(
        atomic_exchange_explicit(&shared[kit_below(&rng, SHARED)], block, memory_order_acq_rel));
    if (i % 512 == 0) kit_purge();
  }
  atomic_fetch_sub(&working, 1);
  pthread_barrier_wait(&finished); /* nobody ends while it may still be signalled */
  return NULL;
}

int main(int argc, char **argv) {
  kit_start();
  kit_watchdog(120);
  operations = argc > 1 ? strtoull(argv[1], NULL, 10) : kit_rounds(60000);
  struct sigaction action = {.sa_handler = on_profile, .sa_flags = SA_RESTART};
  CHECK(sigaction(SIGPROF, &action, NULL) == 0, "sigaction");
  pthread_barrier_init(&started, NULL, WORKERS + 1);
  pthread_barrier_init(&finished, NULL, WORKERS + 1);
  for (uintptr_t i = 0; i < WORKERS; ++i)
    CHECK(pthread_create(&ids[i], NULL, work, (void *)i) == 0, "cannot create thread");
  struct itimerval every = {{0, 1000}, {0, 1000}};
  CHECK(setitimer(ITIMER_PROF, &every, NULL) == 0, "setitimer");
  pthread_barrier_wait(&started);
  for (size_t next = 0; atomic_load(&working) > 0; next = (next + 1) % WORKERS) {
    pthread_kill(ids[next], SIGPROF);
    sched_yield();
  }
  struct itimerval never = {{0, 0}, {0, 0}};
  setitimer(ITIMER_PROF, &never, NULL);
  pthread_barrier_wait(&finished);
  for (size_t i = 0; i < WORKERS; ++i) pthread_join(ids[i], NULL);
  for (size_t i = 0; i < SHARED; ++i) kit_block_free(shared[i]);
  printf("%lu signals during %d x %lu operations or more\n", (unsigned long)signals_seen, WORKERS,
         (unsigned long)operations);
  return 0;
}
