/* fork_chain.c - a server that restarts itself by fork, each time with threads that sleep.
 *
 * Each generation has four threads that allocate, free and go to sleep, and forks the next one. A child does not have these threads: what
 * they kept in their bins is its own, or it would hold more with each generation (docs/decisions/0018).
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kit.h"

enum { THREADS = 4, GENERATIONS = 30, EARLY = 5, BLOCKS = 3000, ROUNDS = 40000 };

static atomic_int asleep;

static void *work_and_sleep(void *seed) {
  static _Thread_local void *blocks[BLOCKS];
  unsigned draw = (unsigned)(uintptr_t)seed * 7919 + 1;
  for (int i = 0; i < ROUNDS; i++) {
    draw = draw * 1103515245 + 12345;
    unsigned at = (draw >> 8) % BLOCKS;
    size_t size = 16 + (draw >> 4) % ((draw & 64) != 0 ? 200 : 2000);
    mem_free(blocks[at]);
    if ((blocks[at] = mem_malloc(size)) == NULL) _exit(3);
    memset(blocks[at], 1, size);
  }
  for (int i = 0; i < BLOCKS; i++) mem_free(blocks[i]);
  atomic_fetch_add(&asleep, 1);
  for (;;) pause();
}

static void start_threads(unsigned generation) {
  pthread_t thread;
  asleep = 0;
  for (unsigned i = 0; i < THREADS; i++)
    if (pthread_create(&thread, NULL, work_and_sleep,
                       (void *)(uintptr_t)(generation * THREADS + i)) != 0)
      _exit(4);
  while (atomic_load(&asleep) < THREADS) usleep(1000);
}

int main(void) {
  kit_start();
  size_t early = 0;
  for (unsigned generation = 0;; generation++) {
    start_threads(generation);
    if (generation == EARLY) early = kit_resident() / 1024;
    if (generation == GENERATIONS) break;
    int status = -1;
    pid_t child = fork();
    if (child == 0) continue;
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status)) return 1;
    _exit(WEXITSTATUS(status));
  }
  size_t late = kit_resident() / 1024;
  printf("resident: %zu KiB in generation %d, %zu in generation %d\n", early, EARLY, late,
         GENERATIONS);
  /* 8 MiB more each generation when they are lost */
  return late < early + early / 2 + (size_t)4 * 1024 ? 0 : 1;
}
