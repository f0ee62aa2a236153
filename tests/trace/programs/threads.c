/* threads.c - threads that hand blocks to each other.
 *
 *   threads turns          two threads in turns, each freeing what the other has allocated
 *   threads storm N ROUNDS N threads that exchange blocks as fast as they can
 *   threads short N        N threads one after the other
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "program.h"

/* --- turns ----------------------------------------------------------------------------------------- */

enum { TURNS = 2000, FIRST_SIZE = 1000 };
static _Atomic int turn;
static void *handed;

/* Thread 0 has the even turns, thread 1 the odd ones. */
static void *in_turns(void *number) {
  for (int mine = (int)(intptr_t)number; mine < TURNS; mine += 2) {
    while (atomic_load_explicit(&turn, memory_order_acquire) != mine) sched_yield();
    free(handed);
    handed = malloc(FIRST_SIZE + (size_t)mine);
    atomic_store_explicit(&turn, mine + 1, memory_order_release);
  }
  return NULL;
}

static void run_turns(void) {
  pthread_t threads[2];
  for (intptr_t i = 0; i < 2; i++)
    if (pthread_create(&threads[i], NULL, in_turns, (void *)i) != 0) _exit(1);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  free(handed);
}

/* --- storm ----------------------------------------------------------------------------------------- */

enum { PLACES = 64 };
static _Atomic(void *) places[PLACES];
static int rounds;

static void *in_storm(void *number) {
  uint64_t state = (uintptr_t)number * UINT64_C(0x9E3779B97F4A7C15) + 1;
  for (int i = 0; i < rounds; i++) {
    state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
    size_t size = 16 + (state >> 33) % 500;
    if (i % 50 == 0) size = 2000 + (state >> 33) % 300000;
    void *block = malloc(size);
    block = atomic_exchange_explicit(&places[state >> 58], block, memory_order_acq_rel);
    if (i % 7 == 0 && block != NULL) block = realloc(block, size + 100);
    free(block);
  }
  return NULL;
}

static void run_storm(int count) {
  pthread_t threads[64];
  for (intptr_t i = 0; i < count; i++)
    if (pthread_create(&threads[i], NULL, in_storm, (void *)(i + 1)) != 0) _exit(1);
  for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < PLACES; i++) free(atomic_load(&places[i]));
}

/* --- short ----------------------------------------------------------------------------------------- */

static pthread_key_t key;

/* Keeps a block for its destructor, which runs when the thread ends. */
static void *in_short(void *number) {
  pthread_setspecific(key, malloc(5000 + (size_t)(intptr_t)number));
  return NULL;
}

static void run_short(int count) {
  if (pthread_key_create(&key, free) != 0) _exit(1);
  for (intptr_t i = 0; i < count; i++) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, in_short, (void *)i) != 0) _exit(1);
    pthread_join(thread, NULL);
  }
}

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "";
  mark(); /* the main thread is number 0 */
  if (strcmp(what, "turns") == 0) run_turns();
  else if (strcmp(what, "short") == 0 && argc == 3) run_short(atoi(argv[2]));
  else if (strcmp(what, "storm") == 0 && argc == 4 && atoi(argv[2]) <= 64) {
    rounds = atoi(argv[3]);
    run_storm(atoi(argv[2]));
  } else return 2;
  return 0;
}
