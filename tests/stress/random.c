/* random.c - everything at once, drawn from a seed: threads that come and go allocate in all tiers (malloc, calloc,
 * realloc, aligned to at most 2 MiB), free their own blocks and those of others, give memory back, and fork; each child
 * looks at all blocks that were shared, frees some, allocates for a moment, and ends. Every block holds a pattern, which
 * is looked at when it is freed or resized.
 *
 * The seed is printed at the start and when it fails. Threads run as they like, so the same seed draws the same
 * numbers, not the same interleaving: with a seed that failed, try for longer, and more processes at a time.
 *
 * The long run, 20 minutes of one library, is to be had by
 *   LD_PRELOAD=build/standard/libhakmem.so build/standard/tests/stress/stress_random $RANDOM 1200
 * and so for build/hardened, and with HAKMEM_PROFILE=lean; on the variants without a preloaded library (check, asan, tsan)
 * without LD_PRELOAD. HAK_TEST_HOLD=1 keeps a process that failed for a debugger.
 *
 * usage: random [seed [seconds [no-fork]]] */
#include "kit.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define THREADS 6
#define SHARED 1024
#define OWN 64
#define CHILD_OPERATIONS 300

static _Atomic(kit_block) shared[SHARED];
static atomic_bool stop, ended[THREADS];
static atomic_ulong operations, forks;
static unsigned long seed;
static bool may_fork = !KIT_TSAN; /* which does not follow a child of several threads */
static char last_words[128];

static void say_seed(int number) {
  if (write(STDERR_FILENO, last_words, strlen(last_words)) < 0) number = SIGABRT;
  signal(number, SIG_DFL);
  raise(number);
}

/* Each doubling as often as any other, to 1 MiB, and now and then to 64 MiB. */
static size_t log_uniform(struct kit_rng *rng) {
  unsigned bits = (unsigned)kit_below(rng, kit_below(rng, 300) == 0 ? 27 : 21);
  return (size_t)kit_below(rng, (uint64_t)1 << bits) + 1;
}

static kit_block take_any(struct kit_rng *rng) {
  size_t size = log_uniform(rng);
  uint64_t draw = kit_below(rng, 16);
  kit_block block =
      draw > 0 ? kit_block_any(rng, size)
               : kit_block_aligned((size_t)16 << kit_below(rng, 18), size, kit_random(rng));
  CHECK(block, "no block of %zu bytes", size);
  return block;
}

static void resize(kit_block *block, struct kit_rng *rng) {
  size_t size = kit_block_size(*block);
  /* A little, by half, or to anything. */
  switch (kit_below(rng, 4)) {
  case 0:
    size += kit_below(rng, 64);
    break;
  case 1:
    size = size / 2 + 1;
    break;
  case 2:
    size += size / 2;
    if (size > 64 * KIT_MB) size = 100;
    break;
  default:
    size = log_uniform(rng);
  }
  *block = kit_block_resize(*block, size, kit_random(rng));
  CHECK(*block, "realloc to %zu bytes failed", size);
}

static void one_operation(struct kit_rng *rng, kit_block *own) {
  kit_block *slot = &own[kit_below(rng, OWN)];
  uint64_t draw = kit_below(rng, 100);
  if (draw < 40) { /* mine for another's, who will free it */
    *slot = atomic_exchange_explicit(&shared[kit_below(rng, SHARED)], *slot, memory_order_acq_rel);
  } else if (draw < 70) {
    kit_block_free(*slot);
    *slot = 0;
  } else if (draw < 85 && *slot != 0) {
    resize(slot, rng);
  } else {
    kit_block_free(*slot);
    *slot = take_any(rng);
  }
  if (kit_below(rng, 20000) == 0) kit_purge();
}

/* What is in a shared slot is whole: it was put there when it was. */
__attribute__((noreturn)) static void child(struct kit_rng *rng, kit_block *own) {
  kit_watchdog(60);
  for (size_t i = 0; i < SHARED; i++) {
    if (shared[i] == 0) continue;
    kit_block_check(shared[i]);
    if (kit_below(rng, 4) > 0) continue;
    kit_block_free(shared[i]);
    shared[i] = 0;
  }
  for (int i = 0; i < CHILD_OPERATIONS; i++) one_operation(rng, own);
  _exit(0);
}

static void fork_once(struct kit_rng *rng, kit_block *own) {
  if (!may_fork) return;
  pid_t pid = fork();
  CHECK(pid >= 0, "fork");
  if (pid == 0) child(rng, own);
  int status = -1;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
  CHECK(status == 0, "a child ended with status %#x", (unsigned)status);
  atomic_fetch_add(&forks, 1);
}

struct work {
  uint64_t stream;
  atomic_bool *ended;
};

static void *work(void *argument) {
  struct work *job = argument;
  struct kit_rng rng = kit_rng_make(seed * 1000003 + job->stream);
  kit_block own[OWN] = {0};
  uint64_t length = (uint64_t)1 << kit_below(&rng, 17), done = 0;
  for (; done < length && !atomic_load_explicit(&stop, memory_order_relaxed); done++) {
    one_operation(&rng, own);
    if (kit_below(&rng, 10000) == 0) fork_once(&rng, own);
  }
  /* Half of the threads leave what they have to others, who free it when this one is no more. */
  for (size_t i = 0; i < OWN; i++)
    kit_block_free(job->stream % 2 == 0 ? own[i]
                                        : atomic_exchange_explicit(&shared[kit_below(&rng, SHARED)],
                                                                   own[i], memory_order_acq_rel));
  atomic_fetch_add(&operations, done);
  atomic_store(job->ended, true);
  return NULL;
}

int main(int argc, char **argv) {
  kit_start();
  seed = argc > 1 ? strtoul(argv[1], NULL, 10) : (unsigned long)time(NULL);
  unsigned seconds = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 5;
  if (argc > 3 && strcmp(argv[3], "no-fork") == 0) may_fork = false;
  printf("seed %lu, %u seconds\n", seed, seconds);
  fflush(stdout);
  snprintf(last_words, sizeof last_words, "FAILED: stress_random %lu %u\n", seed, seconds);
  if (getenv("HAK_TEST_HOLD") == NULL) signal(SIGABRT, say_seed), signal(SIGSEGV, say_seed);
  kit_watchdog(seconds + 180);
  static struct work jobs[THREADS];
  pthread_t ids[THREADS];
  time_t end = time(NULL) + (time_t)seconds;
  uint64_t begun = 0;
  while (time(NULL) < end) {
    for (size_t i = 0; i < THREADS; i++) {
      bool first = begun < THREADS;
      if (!first && !atomic_load(&ended[i])) continue;
      if (!first) pthread_join(ids[i], NULL);
      atomic_store(&ended[i], false);
      jobs[i] = (struct work){begun++, &ended[i]};
      CHECK(pthread_create(&ids[i], NULL, work, &jobs[i]) == 0, "cannot create a thread");
    }
    usleep(500);
  }
  atomic_store(&stop, true);
  for (size_t i = 0; i < THREADS; i++) pthread_join(ids[i], NULL);
  for (size_t i = 0; i < SHARED; i++) kit_block_free(shared[i]);
  kit_purge();
  struct hak_stats stats = kit_stats();
  printf("%lu operations by %lu threads, %lu forks; left: %lu superslabs, %lu huge\n",
         atomic_load(&operations), (unsigned long)begun, atomic_load(&forks),
         (unsigned long)stats.superslabs_live, (unsigned long)stats.huge_live);
  CHECK(stats.huge_live == 0, "huge blocks are left");
  return 0;
}
