/* limit_threads.c - threads make their first malloc, or one past the end of their heap, when the address space is used up (RLIMIT_AS) and what was
 * freed waits in the process. Each has its block.
 *
 * usage: limit_threads first | ended */
#include "kit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

enum { THREADS = 300, BLOCKS = 20, FREED = 4, HUGE_BLOCK = 4 * 1024 * 1024 - 4096, SIZE = 100 };
enum { ROOM = 200 * 1024 * 1024, STACK = 64 * 1024, ROUNDS_OF_KEYS = 4 };

static char stacks[THREADS][STACK] __attribute__((aligned(64 * 1024)));
static pthread_t threads[THREADS];
static pthread_key_t key;
static pthread_barrier_t all_are_here;
static atomic_uint refused;

static void take_some(void) {
  for (unsigned i = 0; i < BLOCKS; i++)
    if (malloc(SIZE) == NULL) atomic_fetch_add(&refused, 1);
}

static void *first(void *argument) {
  take_some();
  pthread_barrier_wait(&all_are_here); /* each has a heap of its own until then */
  return argument;
}

/* The heap is parked in the second round. */
static void when_ended(void *round) {
  if ((uintptr_t)round == ROUNDS_OF_KEYS) take_some();
  else (void)pthread_setspecific(key, (char *)round + 1);
}

static void *ended(void *argument) {
  if (malloc(SIZE) == NULL) atomic_fetch_add(&refused, 1);
  (void)pthread_setspecific(key, (void *)(uintptr_t)1);
  pthread_barrier_wait(&all_are_here);
  return argument;
}

static void use_up(void) {
  FILE *file = fopen("/proc/self/statm", "r");
  size_t pages;
  CHECK(file != NULL && fscanf(file, "%zu", &pages) == 1, "cannot read statm");
  fclose(file);
  rlim_t most = pages * (size_t)sysconf(_SC_PAGESIZE) + ROOM;
  CHECK(setrlimit(RLIMIT_AS, &(struct rlimit){most, most}) == 0, "setrlimit");
  static void *blocks[ROOM / HUGE_BLOCK + 1];
  size_t count = 0;
  while (count < sizeof blocks / sizeof *blocks && (blocks[count] = malloc(HUGE_BLOCK)) != NULL)
    memset(blocks[count++], 1, 4096);
  CHECK(count > FREED, "only %zu blocks", count);
  for (size_t left = 1024 * 1024; left >= STACK;)
    if (mmap(NULL, left, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) ==
        MAP_FAILED)
      left /= 2;
  for (size_t i = 0; i < FREED; i++) free(blocks[--count]);
}

int main(int argc, char **argv) {
  bool ends = argc > 1 && strcmp(argv[1], "ended") == 0;
  kit_start();
  kit_watchdog(200);
  CHECK(pthread_key_create(&key, when_ended) == 0, "pthread_key_create");
  CHECK(pthread_barrier_init(&all_are_here, NULL, THREADS) == 0, "pthread_barrier_init");
  use_up();
  for (size_t i = 0; i < THREADS; i++) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    CHECK(pthread_attr_setstack(&attributes, stacks[i], STACK) == 0, "pthread_attr_setstack");
    CHECK(pthread_create(&threads[i], &attributes, ends ? ended : first, NULL) == 0, "thread %zu",
          i);
  }
  for (size_t i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  printf("%u of %u calls were refused\n", atomic_load(&refused), THREADS * BLOCKS);
  CHECK(atomic_load(&refused) == 0, "%u calls were refused", atomic_load(&refused));
  return 0;
}
