/* large_heaps.c - the first SuperSlabs of large heaps become huge pages (superslab/collapse.h), while other threads free blocks in them, give back what is
 * free, and fork. All contents stay, and in the end nothing of it is left.
 *
 * usage: large_heaps [THREADS] [no-fork] */
#include "kit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS_MOST = 8, SIZE = 1500, BLOCKS = 70 * 1024 * 1024 / SIZE };

static kit_block *blocks[THREADS_MOST];
static unsigned threads = 2;
static atomic_uint running;

/* Grows beyond 64 MB, each time with other gaps. What is freed is freed by the thread that made it, or by the next one. */
static void *grow(void *number) {
  unsigned own = (unsigned)(uintptr_t)number, next = (own + 1) % threads;
  struct kit_rng rng = kit_rng_make(own);
  for (uint64_t round = 0, rounds = kit_rounds(20); round < rounds; round++) {
    for (size_t i = 0; i < BLOCKS; i++) {
      kit_block old = __atomic_exchange_n(&blocks[own][i], 0, __ATOMIC_ACQ_REL);
      if (old == 0) old = kit_block_malloc(SIZE, kit_random(&rng));
      CHECK(old != 0, "out of memory");
      old = __atomic_exchange_n(&blocks[own][i], old, __ATOMIC_ACQ_REL);
      kit_block_free(old);
    }
    uint64_t keep = kit_below(&rng, 40);
    for (size_t i = 0; i < BLOCKS; i++) {
      if (kit_below(&rng, 40) < keep) continue;
      unsigned whose = kit_below(&rng, 2) == 0 ? own : next;
      kit_block_free(__atomic_exchange_n(&blocks[whose][i], 0, __ATOMIC_ACQ_REL));
    }
  }
  atomic_fetch_sub(&running, 1);
  return NULL;
}

/* A child grows as well, on pages that it shares with its parent. */
static void fork_one(void) {
  pid_t child = fork();
  CHECK(child >= 0, "fork");
  if (child == 0) {
    kit_watchdog(100);
    kit_block own[256];
    for (size_t i = 0; i < 256; i++)
      CHECK((own[i] = kit_block_malloc(60 * KIT_KB, i)) != 0, "out of memory");
    kit_purge();
    for (size_t i = 0; i < 256; i++) kit_block_free(own[i]);
    _exit(0);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child && status == 0, "the child ended with %#x",
        (unsigned)status);
}

int main(int argc, char **argv) {
  kit_start();
  kit_watchdog(280);
  if (argc > 1) threads = (unsigned)strtoul(argv[1], NULL, 10);
  CHECK(threads > 0 && threads <= THREADS_MOST, "1 to %d threads", THREADS_MOST);
  bool forks = argc < 3 || strcmp(argv[2], "no-fork") != 0;
  size_t before = kit_resident();
  pthread_t ids[THREADS_MOST];
  for (unsigned i = 0; i < threads; i++) {
    blocks[i] = mem_calloc(BLOCKS, sizeof *blocks[i]);
    CHECK(blocks[i] != NULL, "out of memory");
  }
  atomic_store(&running, threads);
  for (uintptr_t i = 0; i < threads; i++)
    CHECK(pthread_create(&ids[i], NULL, grow, (void *)i) == 0, "cannot create a thread");
  for (unsigned turn = 0; atomic_load(&running) > 0; turn++) {
    kit_purge();
    usleep(3000);
    if (forks && turn % 64 == 0) fork_one();
  }
  for (unsigned i = 0; i < threads; i++) pthread_join(ids[i], NULL);
  for (unsigned i = 0; i < threads; i++) {
    for (size_t at = 0; at < BLOCKS; at++) kit_block_free(blocks[i][at]);
    mem_free(blocks[i]);
  }
  kit_purge();
  size_t after = kit_resident();
  printf("resident: %zu KB before, %zu KB after\n", before / KIT_KB, after / KIT_KB);
  CHECK(KIT_SANITIZED || after <= before + 16 * KIT_MB, "%zu MB stay", after / KIT_MB);
  return 0;
}
