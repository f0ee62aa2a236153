/* Memory is given back while it is in use: threads fill, free at random, hand blocks on and verify
 * every byte, while the helper looks every few milliseconds, another thread purges without pause, and
 * children of forks find their memory whole and go on with it.
 *
 * usage: release [rounds]; run with HAKMEM_WARM_POOL_DECAY_MS=20, so that the helper is busy */
#include "kit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 3, SLOTS = KIT_SANITIZED ? 3000 : 12000, CHILDREN = 6 };

struct worker {
  pthread_t id;
  uint64_t number, rounds;
  kit_block slots[SLOTS];
};

static struct worker workers[THREADS];
static _Atomic(kit_block) passed[64]; /* blocks on their way to whoever takes them */
static atomic_bool done;

static size_t size_for(struct kit_rng *rng, uint64_t round) {
  /* Phases of different sizes, so that slabs are left behind; Large ones through the span cache. */
  static const size_t most[] = {200, 5000, 1000, 60 * KIT_KB, 300};
  if (kit_below(rng, 400) == 0) return 70 * KIT_KB + kit_below(rng, 600 * KIT_KB);
  return 16 + kit_below(rng, most[round % 5]);
}

static void fill(struct worker *worker, struct kit_rng *rng, uint64_t round) {
  size_t budget = 12 * KIT_MB;
  for (int i = 0; i < SLOTS && budget > 0; i++) {
    if (worker->slots[i] != 0) continue;
    size_t size = size_for(rng, round);
    worker->slots[i] = kit_block_malloc(size, kit_random(rng));
    CHECK(worker->slots[i], "malloc(%zu) failed", size);
    budget -= size < budget ? size : budget;
  }
}

static void empty(struct worker *worker, struct kit_rng *rng, unsigned percent) {
  for (int i = 0; i < SLOTS; i++) {
    if (worker->slots[i] == 0 || kit_below(rng, 100) >= percent) continue;
    kit_block out = worker->slots[i];
    worker->slots[i] = 0;
    if (kit_below(rng, 8) == 0) out = atomic_exchange(&passed[kit_below(rng, 64)], out);
    kit_block_free(out);
  }
}

static void verify(const struct worker *worker) {
  for (int i = 0; i < SLOTS; i++)
    if (worker->slots[i] != 0) kit_block_check(worker->slots[i]);
}

static void *work(void *argument) {
  struct worker *worker = argument;
  struct kit_rng rng = kit_rng_make(worker->number);
  for (uint64_t round = 0; round < worker->rounds; round++) {
    fill(worker, &rng, round);
    empty(worker, &rng, round % 3 == 2 ? 99 : 80);
    usleep(30000); /* long enough for two looks: what is free goes */
    verify(worker);
  }
  empty(worker, &rng, 100);
  return NULL;
}

static void *purge(void *argument) {
  (void)argument;
  while (!atomic_load(&done)) {
    kit_purge();
    usleep(2000);
  }
  return NULL;
}

/* The child has one thread, and the blocks of all: what it frees and fills again is checked as well. */
static void child(void) {
  pid_t pid = fork();
  CHECK(pid >= 0, "fork failed");
  if (pid == 0) {
    kit_watchdog(60);
    struct kit_rng rng = kit_rng_make(99);
    static struct worker own;
    fill(&own, &rng, 1);
    empty(&own, &rng, 90);
    kit_purge();
    fill(&own, &rng, 0);
    verify(&own);
    empty(&own, &rng, 100);
    _exit(0);
  }
  int status;
  CHECK(waitpid(pid, &status, 0) == pid, "waitpid failed");
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a child ended with status %#x", status);
}

int main(int argc, char **argv) {
  kit_start();
  kit_watchdog(280);
  uint64_t rounds = argc > 1 ? strtoull(argv[1], NULL, 10) : kit_rounds(60);
  pthread_t purger;
  CHECK(pthread_create(&purger, NULL, purge, NULL) == 0, "cannot create thread");
  for (uint64_t i = 0; i < THREADS; i++) {
    workers[i].number = i + 1;
    workers[i].rounds = rounds;
    CHECK(pthread_create(&workers[i].id, NULL, work, &workers[i]) == 0, "cannot create thread");
  }
  for (int i = 0; i < CHILDREN; i++) {
    usleep(100000);
    child();
  }
  for (int i = 0; i < THREADS; i++) pthread_join(workers[i].id, NULL);
  atomic_store(&done, true);
  pthread_join(purger, NULL);
  for (int i = 0; i < 64; i++) kit_block_free(atomic_exchange(&passed[i], 0));
  printf("%lu rounds in %d threads: %lu madvise calls\n", (unsigned long)rounds, THREADS,
         (unsigned long)kit_stats().os_madvise);
  CHECK(kit_stats().os_madvise > rounds, "nothing was given back");
  return 0;
}
