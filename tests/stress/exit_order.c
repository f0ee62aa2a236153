/* Destructors of the program's keys, which it made after its first malloc, still have their thread's heap in their first
 * round, whatever the order of keys. And a heap that was first made in a destructor is parked like any other. */
#include "kit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

enum { THREADS = 50, BLOCKS = 200 };

static pthread_key_t key, late_key;
static atomic_ulong with_heap, destroyed;

static void use_memory(void) {
  void *blocks[BLOCKS];
  for (int i = 0; i < BLOCKS; i++) {
    blocks[i] = mem_malloc(100);
    CHECK(blocks[i], "malloc failed");
  }
  for (int i = 0; i < BLOCKS; i++) mem_free(blocks[i]);
}

/* One thread at a time beside main's. */
static void destroy(void *block) {
  mem_free(block);
  use_memory();
  with_heap += kit_stats().heaps_active == 2;
  destroyed++;
}

static void *work(void *unused) {
  void *block = mem_malloc(100);
  CHECK(block, "malloc failed");
  CHECK(pthread_setspecific(key, block) == 0, "pthread_setspecific");
  return unused;
}

/* The first allocation of its thread, in the first round or in the second. */
static void destroy_late(void *rounds) {
  if ((uintptr_t)rounds > 1)
    CHECK(pthread_setspecific(late_key, (void *)((uintptr_t)rounds - 1)) == 0,
          "pthread_setspecific");
  else use_memory();
}

static void *work_late(void *rounds) {
  CHECK(pthread_setspecific(late_key, rounds) == 0, "pthread_setspecific");
  return NULL;
}

static void run(void *(*function)(void *), void *argument) {
  pthread_t id;
  CHECK(pthread_create(&id, NULL, function, argument) == 0, "cannot create thread");
  pthread_join(id, NULL);
}

int main(void) {
  kit_start();
  mem_free(mem_malloc(1));
  CHECK(pthread_key_create(&key, destroy) == 0, "pthread_key_create");
  CHECK(pthread_key_create(&late_key, destroy_late) == 0, "pthread_key_create");
  for (int i = 0; i < THREADS; i++) run(work, NULL);
  printf("%lu of %lu destructors had a heap\n", (unsigned long)with_heap, (unsigned long)destroyed);
  CHECK(destroyed == THREADS && with_heap == THREADS, "destructors ran without a heap");
  /* In the fourth round ThreadSanitizer's own state of the thread is gone before the heap is parked. */
  for (uintptr_t rounds = 1; rounds <= (KIT_TSAN ? 1 : 2); rounds++)
    for (int i = 0; i < THREADS; i++) run(work_late, (void *)rounds);
  struct hak_stats stats = kit_stats();
  CHECK(stats.heaps_active == 1, "%lu heaps have a thread", (unsigned long)stats.heaps_active);
  CHECK(stats.heaps_parked == 1, "%lu heaps are parked", (unsigned long)stats.heaps_parked);
  return 0;
}
