/* What threads have freed for each other, and not sent, while they sleep: malloc_trim and the helper reach it.
 *
 * usage: unsent trim       512 threads free each other's blocks and sleep; nothing is live. hak_purge gives it back.
 *        unsent rest       the same, and nobody calls the allocator any more: the helper gives it back
 *        unsent full       as many threads as have slabs of their own fill their bins and sleep, and then 32 more: what README says of bins
 *        unsent race       threads that free for each other while others purge; every block knows its contents
 *        unsent refused    the same where the kernel refuses membarrier, without which nobody may touch another thread's slots */
#include "kit.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* --- threads that sleep ------------------------------------------------------------------------------------------ */

/* Of each of some classes a thread frees a few blocks for each other thread, so that hardly a batch is full. */
enum { THREADS_MOST = 512, BLOCKS = 2048, SIZE_STEP = 128, SIZES = 4, REST_SECONDS = 20 };
/* Bins, 64 KiB a thread at least, and what shares a page with them; stacks, descriptors. */
enum { SLEEPER_KB = 256, BESIDE_MB = 8 };

static char *blocks[THREADS_MOST][BLOCKS];
static unsigned threads;
static pthread_barrier_t filled;
static atomic_uint asleep;
static atomic_bool done;

/* Each frees one block of each other thread's in turn. */
static void *free_for_others(void *number) {
  unsigned me = (unsigned)(uintptr_t)number;
  struct kit_rng random = kit_rng_make(me);
  for (unsigned i = 0; i < BLOCKS; i++) {
    size_t size = SIZE_STEP * (1 + kit_below(&random, SIZES));
    CHECK(blocks[me][i] = mem_malloc(size), "malloc failed");
    memset(blocks[me][i], 1, size);
  }
  pthread_barrier_wait(&filled);
  for (unsigned i = 0; i < BLOCKS; i++) mem_free(blocks[(me + i) % threads][i]);
  atomic_fetch_add(&asleep, 1);
  while (!atomic_load(&done)) usleep(10000);
  return NULL;
}

static void expect_at_most(size_t most) {
  size_t resident = kit_resident();
  printf("%zu MB resident, at most %zu\n", resident / KIT_MB, most / KIT_MB);
  CHECK(resident <= most, "%zu MB stay", resident / KIT_MB);
}

static void sleepers(bool trims) {
  static pthread_t ids[THREADS_MOST];
  threads = KIT_SLOW ? THREADS_MOST / 8 : THREADS_MOST;
  size_t most = threads * SLEEPER_KB * KIT_KB + BESIDE_MB * KIT_MB;
  pthread_barrier_init(&filled, NULL, threads);
  for (uintptr_t i = 0; i < threads; i++)
    CHECK(pthread_create(&ids[i], NULL, free_for_others, (void *)i) == 0, "cannot create thread");
  while (atomic_load(&asleep) < threads) usleep(1000);
  printf("%zu MB resident\n", kit_resident() / KIT_MB);
  if (trims) {
    size_t given = kit_purge();
    printf("%zu MB given back\n", given / KIT_MB);
  } else {
    for (unsigned i = 0; i < REST_SECONDS * 10 && kit_resident() > most; i++) usleep(100000);
  }
  if (!KIT_SANITIZED) expect_at_most(most); /* theirs is other memory as well */
  atomic_store(&done, true);
  for (unsigned i = 0; i < threads; i++) pthread_join(ids[i], NULL);
}

/* --- threads with full bins -------------------------------------------------------------------------------------- */

/* README.md: a thread keeps up to 8 MiB. Where more threads run than there are processors, those that share slabs keep 4 MiB together, or 64 KiB
 * each, and the first few blocks of each class. The main one is one of those with slabs. Beside bins there are blocks that share a
 * page with one of theirs. */
enum {
  OWN_LEAST = 8,
  OWN_MOST = 32,
  LATER = 32,
  EACH_MB = 8,
  TOGETHER_MB = 4,
  MOST_SIZE = 4 << 10,
  FILLED_BYTES = 256 << 10,
  EARNED_AT_ONCE = 1 << 20
};

static unsigned threads_with_slabs(void) {
  cpu_set_t processors;
  CHECK(sched_getaffinity(0, sizeof processors, &processors) == 0, "no processors");
  unsigned count = (unsigned)CPU_COUNT(&processors);
  return count < OWN_LEAST ? OWN_LEAST : count;
}

/* A thread may keep a sixteenth of what it was given so far. */
static void earn_all(void) {
  static _Thread_local char *given[EARNED_AT_ONCE / KIT_KB];
  for (size_t bytes = 0; bytes < 16 * EACH_MB * KIT_MB; bytes += EARNED_AT_ONCE / 2) {
    for (size_t i = 0; i < EARNED_AT_ONCE / KIT_KB; i++) given[i] = mem_malloc(KIT_KB);
    for (size_t i = 0; i < EARNED_AT_ONCE / KIT_KB; i++) mem_free(given[i]);
  }
}

static void *fill_bins(void *unused) {
  static _Thread_local char *mine[FILLED_BYTES / 64];
  earn_all();
  for (size_t size = 64; size <= MOST_SIZE; size += size < 256 ? 16 : size / 8)
    for (size_t bytes = 4 * KIT_KB; bytes <= FILLED_BYTES; bytes *= 2) { /* as a bin grows */
      size_t count = bytes / size;
      for (size_t i = 0; i < count; i++) {
        CHECK(mine[i] = mem_malloc(size), "malloc failed");
        memset(mine[i], 1, size);
      }
      for (size_t i = 0; i < count; i++) mem_free(mine[i]);
    }
  atomic_fetch_add(&asleep, 1);
  while (!atomic_load(&done)) usleep(10000);
  return unused;
}

static void start_fillers(pthread_t *ids, unsigned count) {
  unsigned before = atomic_load(&asleep);
  for (unsigned i = 0; i < count; i++)
    CHECK(pthread_create(&ids[i], NULL, fill_bins, NULL) == 0, "cannot create thread");
  while (atomic_load(&asleep) < before + count) usleep(1000);
  kit_purge();
}

static void full_bins(void) {
  pthread_t ids[OWN_MOST + LATER];
  unsigned with_slabs = threads_with_slabs(), fillers = with_slabs - 1;
  if (with_slabs > OWN_MOST) {
    puts("skipped: so many processors would take too much memory");
    exit(77);
  }
  mem_free(mem_malloc(1));
  start_fillers(ids, fillers);
  expect_at_most((fillers * EACH_MB + BESIDE_MB) * KIT_MB);
  size_t before = kit_resident();
  CHECK(before > fillers * EACH_MB * KIT_MB / 2, "the bins are not full");
  start_fillers(ids + fillers, LATER);
  expect_at_most(before + with_slabs * TOGETHER_MB * KIT_MB + LATER * SLEEPER_KB * KIT_KB);
  atomic_store(&done, true);
  for (unsigned i = 0; i < fillers + LATER; i++) pthread_join(ids[i], NULL);
}

/* --- threads that do not ----------------------------------------------------------------------------------------- */

enum { RACERS = 4, PURGERS = 2, PLACES = 512, RACE_ROUNDS = 400000 };

static _Atomic kit_block places[PLACES];
static uint64_t race_rounds;

/* What it finds in a place another thread has mostly allocated. */
static void *race(void *number) {
  struct kit_rng random = kit_rng_make((uintptr_t)number);
  for (uint64_t i = 0; i < race_rounds; i++) {
    kit_block mine = kit_block_malloc(1 + kit_below(&random, 300), i);
    kit_block other = atomic_exchange(&places[kit_below(&random, PLACES)], mine);
    kit_block_free(other);
  }
  atomic_fetch_add(&asleep, 1);
  return NULL;
}

static void *purge(void *unused) {
  while (atomic_load(&asleep) < RACERS) {
    kit_purge();
    usleep(200);
  }
  return unused;
}

static void races(void) {
  pthread_t ids[RACERS + PURGERS];
  race_rounds = kit_rounds(RACE_ROUNDS);
  for (uintptr_t i = 0; i < RACERS + PURGERS; i++)
    CHECK(pthread_create(&ids[i], NULL, i < RACERS ? race : purge, (void *)i) == 0,
          "cannot create thread");
  for (unsigned i = 0; i < RACERS + PURGERS; i++) pthread_join(ids[i], NULL);
  for (unsigned i = 0; i < PLACES; i++) kit_block_free(atomic_load(&places[i]));
  kit_purge();
}

static bool refuse_membarrier(void) {
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {sizeof code / sizeof *code, code};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

int main(int argc, char **argv) {
  kit_start();
  kit_watchdog(240);
  const char *mode = argc == 2 ? argv[1] : "";
  if (strcmp(mode, "trim") == 0) sleepers(true);
  else if (strcmp(mode, "rest") == 0) sleepers(false);
  else if (strcmp(mode, "full") == 0) full_bins();
  else if (strcmp(mode, "race") == 0) races();
  else if (strcmp(mode, "refused") == 0 && refuse_membarrier()) races();
  else CHECK(false, "usage: unsent trim|rest|full|race|refused");
  return 0;
}
