/* Threads work on blocks of their own and of each other while system calls are refused, in patterns
 * that change all the time. No block may be damaged; when the faults end, every thread can allocate
 * again at once; in the end nothing is left.
 *
 * usage: threads_fault [rounds [threads]] */
#include "kit.h"

#include "os/fault.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#define MAX_THREADS 16
#define SHARED 128
#define OWN 48
#define FEWEST 20 /* refused system calls; with fewer, little was tested */

static _Atomic(kit_block) shared[SHARED];
static atomic_bool stop;
static atomic_ulong refused, served;

static atomic_uint calm; /* even: calls may be refused; odd: all that start now must work */

static kit_block take(struct kit_rng *rng) {
  unsigned before = atomic_load(&calm);
  errno = 0;
  kit_block block = kit_block_any(rng, kit_any_size(rng));
  if (block) {
    atomic_fetch_add(&served, 1);
  } else {
    atomic_fetch_add(&refused, 1);
    CHECK(!(before & 1) || atomic_load(&calm) != before,
          "malloc failed though no system call is refused any more");
  }
  return block;
}

static void *work(void *argument) {
  struct kit_rng rng = kit_rng_make((uintptr_t)argument);
  kit_block own[OWN] = {0};
  while (!atomic_load(&stop)) {
    uint64_t draw = kit_random(&rng);
    size_t slot = (draw >> 8) % OWN;
    if (draw & 1) {
      slot = (draw >> 8) % SHARED;
      kit_block_free(atomic_exchange(&shared[slot], draw & 6 ? take(&rng) : 0));
    } else if (!own[slot]) {
      own[slot] = take(&rng);
    } else if (draw & 2) {
      kit_block bigger = kit_block_resize(own[slot], kit_any_size(&rng), draw);
      if (bigger) own[slot] = bigger;
    } else {
      kit_block_free(own[slot]);
      own[slot] = 0;
    }
    if (draw >> 52 == 0) kit_purge();
  }
  for (size_t i = 0; i < OWN; ++i) kit_block_free(own[i]);
  return NULL;
}

/* Threads that are born and end among the faults. */
static void *brief(void *argument) {
  struct kit_rng rng = kit_rng_make((uintptr_t)argument);
  for (int i = 0; i < 30; ++i)
    kit_block_free(atomic_exchange(&shared[kit_below(&rng, SHARED)], take(&rng)));
  return NULL;
}

int main(int argc, char **argv) {
  kit_start();
  kit_watchdog(280);
  uint64_t rounds = argc > 1 ? strtoull(argv[1], NULL, 10) : kit_rounds(800);
  uintptr_t threads = argc > 2 ? strtoul(argv[2], NULL, 10) : 4;
  CHECK(threads <= MAX_THREADS, "at most %d threads", MAX_THREADS);
  pthread_t ids[MAX_THREADS];
  os_fault_reset();
  for (uintptr_t i = 0; i < threads; ++i)
    CHECK(pthread_create(&ids[i], NULL, work, (void *)i) == 0, "cannot create thread");
  struct kit_rng rng = kit_rng_make(1000);
  uint64_t injected = 0;
  /* Where a machine is slow, as an emulator is, few calls fall into the time that a fault is on for: more rounds then. */
  for (uint64_t round = 0;
       round < rounds || injected < FEWEST || (atomic_load(&refused) == 0 && round < 4 * rounds);
       ++round) {
    uint64_t draw = kit_random(&rng);
    kit_purge(); /* or there is nothing to ask the system for */
    switch (draw % 4) {
    case 0:
      os_fault_fail_from(1 + draw / 4 % 50);
      break;
    case 1:
      os_fault_fail_nth(1 + draw / 4 % 10);
      break;
    default:
      os_fault_random((uint32_t)draw, 10 + (uint32_t)(draw >> 32) % 490);
    }
    pthread_t extra;
    if (round % 4 == 0)
      CHECK(pthread_create(&extra, NULL, brief, (void *)(uintptr_t)(round + 100)) == 0,
            "cannot create thread");
    usleep(2000);
    if (round % 4 == 0) pthread_join(extra, NULL);
    injected += os_fault_injected();
    os_fault_reset();
    if (round % 4 == 3) {
      usleep(1000); /* for calls that are on their way out with a refusal */
      atomic_fetch_add(&calm, 1);
      usleep(4000);
      atomic_fetch_add(&calm, 1);
    }
  }
  atomic_store(&stop, true);
  for (uintptr_t i = 0; i < threads; ++i) pthread_join(ids[i], NULL);
  for (size_t i = 0; i < SHARED; ++i) kit_block_free(shared[i]);
  kit_purge();
  struct hak_stats stats = kit_stats();
  printf("%lu threads, %lu rounds: %lu system calls refused, malloc gave %lu blocks and %lu times "
         "NULL; left %lu superslabs, %lu huge, %lu heaps active\n",
         (unsigned long)threads, (unsigned long)rounds, (unsigned long)injected,
         (unsigned long)served, (unsigned long)refused, (unsigned long)stats.superslabs_live,
         (unsigned long)stats.huge_live, (unsigned long)stats.heaps_active);
  CHECK(refused > 0 || rounds < 200, "nothing was refused: nothing was tested");
  CHECK(stats.huge_live == 0, "huge blocks are left");
  CHECK(stats.superslabs_live <= 4, "superslabs are left");
  CHECK(stats.heaps_active == 1, "heaps of ended threads are still active");
  return 0;
}
