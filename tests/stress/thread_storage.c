/* Threads that use a library's storage end, so that libc frees it while it holds a lock that pthread_create takes. The program's free is a
 * wrapper that calls the real one (wrapped_free.c). The library must not start its helper thread there: it would wait for ever.
 *
 * usage: thread_storage MODULE */
#include "kit.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { THREADS = 60, ROUNDS = 6 };

static pthread_barrier_t all_use_it;
static char *(*thread_storage)(void);

static void *use_storage(void *unused) {
  CHECK(thread_storage()[0] == 1, "no storage");
  pthread_barrier_wait(&all_use_it);
  return unused;
}

/* But the main one, and the one that sleeps; 20 s at most. No call allocates: what is used does not come to rest. */
static void wait_for_end_of_all_others(void) {
  enum { OWN_LINKS = 2, LEFT = 2 };
  struct stat tasks;
  for (int ms = 0; ms < 20000; ms++) {
    CHECK(stat("/proc/self/task", &tasks) == 0, "cannot read /proc/self/task");
    if (tasks.st_nlink == OWN_LINKS + LEFT) return;
    usleep(1000);
  }
  CHECK(false, "%d threads do not end", (int)tasks.st_nlink - OWN_LINKS - LEFT);
}

static void *sleep_until_locked(void *lock) {
  pthread_mutex_lock(lock);
  return NULL;
}

static void start_all(pthread_t *ids) {
  for (int i = 0; i < THREADS; i++)
    CHECK(pthread_create(&ids[i], NULL, use_storage, NULL) == 0, "cannot create thread");
}

/* While there is no helper thread, and there might be one: the program has a second thread, and memory waits. */
static void join_without_helper(void) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  pthread_t ids[THREADS], second;
  pthread_mutex_lock(&lock);
  CHECK(pthread_create(&second, NULL, sleep_until_locked, &lock) == 0, "cannot create thread");
  start_all(ids);
  wait_for_end_of_all_others();
  for (int i = 0; i < THREADS; i++) pthread_join(ids[i], NULL);
  pthread_mutex_unlock(&lock);
  pthread_join(second, NULL);
}

int main(int argc, char **argv) {
  pthread_t ids[THREADS];
  CHECK(argc == 2, "usage: thread_storage MODULE");
  kit_start();
  kit_watchdog(60);
  void *module = dlopen(argv[1], RTLD_NOW);
  CHECK(module != NULL, "%s", dlerror());
  thread_storage = (char *(*)(void))dlsym(module, "thread_storage");
  const unsigned long *calls = dlsym(RTLD_DEFAULT, "wrapped_free_calls");
  CHECK(thread_storage != NULL && calls != NULL, "no wrapper, or no module");
  pthread_barrier_init(&all_use_it, NULL, THREADS);
  for (int round = 0; round < ROUNDS; round++) {
    start_all(ids);
    /* Each other one is joined, the rest free storage as they end. */
    for (int i = 0; i < THREADS; i++)
      if (i % 2 == 0) pthread_join(ids[i], NULL);
      else pthread_detach(ids[i]);
  }
  join_without_helper();
  CHECK(*calls >= THREADS, "the wrapper was called %lu times", *calls);
  return 0;
}
