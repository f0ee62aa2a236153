/* bare_heaps.c - heaps of ended threads in which nothing is: a trim and a fork pass them by.
 *
 * A program that once had 10,000 threads has as many heaps. A fork that takes the lock of each has the kernel copy a page for each, in the
 * parent. Here another thread holds the lock of such a heap all the time: who takes it would wait for ever.
 */
#include "child.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

WITHOUT_SAMPLES;

static struct thread_cache *bare;
static atomic_bool holds, may_end;

static void *live_for_a_moment(void *unused) {
  hak_free(hak_malloc(100));
  bare = cache_of_thread();
  return unused;
}

static void *hold_lock(void *unused) {
  lock_acquire(&bare->arena->lock);
  atomic_store(&holds, true);
  while (!atomic_load(&may_end)) usleep(100);
  lock_release(&bare->arena->lock);
  return unused;
}

static void a_heap_in_which_nothing_is_is_not_locked(void **state) {
  (void)state;
  pthread_t thread;
  hak_free(hak_malloc(100));
  assert_int_equal(pthread_create(&thread, NULL, live_for_a_moment, NULL), 0);
  pthread_join(thread, NULL);
  assert_ptr_not_equal(bare, cache_of_thread());
  hak_purge();
  assert_int_equal(pthread_create(&thread, NULL, hold_lock, NULL), 0);
  while (!atomic_load(&holds)) usleep(100);
  alarm(60);
  hak_purge();
  pid_t child = fork();
  if (child == 0) { /* that thread is not here, and the heap is not used any more */
    struct thread_cache *next = cache_borrow();
    _exit(next == NULL || next == bare);
  }
  child_ends_well(child);
  atomic_store(&may_end, true);
  pthread_join(thread, NULL);
  alarm(0);
}

static void a_child_uses_such_heaps(void **state) {
  (void)state;
  assert_int_equal(arena_beside(bare)->state, ARENA_PARKED);
  for (int generation = 0; generation < 3; generation++) {
    pid_t child = fork();
    if (child != 0) {
      child_ends_well(child);
      if (generation > 0) _exit(0);
      return;
    }
  }
  struct thread_cache *first = cache_borrow(), *second = cache_borrow();
  if (first != bare || second == NULL || second == first) _exit(1);
  cache_return(first);
  cache_return(second);
  if (heap_active() != 1) _exit(2);
  _exit(0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_heap_in_which_nothing_is_is_not_locked),
      cmocka_unit_test(a_child_uses_such_heaps),
  };
  return cmocka_run_group_tests_name("bare heaps", tests, NULL, NULL);
}
