/* bare_heaps.c - heaps of ended threads in which nothing is: a trim and a fork pass them by.
 *
 * A program that once had 10,000 threads has as many heaps. A fork that takes the lock of each has the kernel copy a page for each, in the
 * parent. Here another thread holds the lock of such a heap all the time: who takes it would wait for ever.
 */
#include "child.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
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

/* --- guests ---------------------------------------------------------------------------------------------------------- */

enum {
  THREADS = 2 * 256 + 8 /* more than may have slabs of their own on a machine of 512 processors */,
  BLOCKS = 20
};

static pthread_barrier_t all_are_there;
static struct thread_cache *caches[THREADS];

static void *use_and_end(void *place) {
  void *blocks[BLOCKS];
  for (size_t i = 0; i < BLOCKS; i++) blocks[i] = hak_malloc(16 + 40 * i);
  *(struct thread_cache **)place = cache_of_thread();
  pthread_barrier_wait(&all_are_there);
  for (size_t i = 0; i < BLOCKS; i++) hak_free(blocks[i]);
  return NULL;
}

/* Whatever its thread did, and however often memory was given back since. */
static void a_guests_heap_takes_one_page(void **state) {
  (void)state;
  pthread_t threads[THREADS];
  unsigned guests = 0;
  if (os_page_size() != HEAP_PAGE) skip();
  pthread_barrier_init(&all_are_there, NULL, THREADS);
  pthread_attr_t attributes; /* small stacks: also run under a limit of the address space */
  assert_int_equal(pthread_attr_init(&attributes), 0);
  assert_int_equal(pthread_attr_setstacksize(&attributes, 256 << 10), 0);
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&threads[i], &attributes, use_and_end, &caches[i]), 0);
  pthread_attr_destroy(&attributes);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  hak_purge();
  for (int i = 0; i < THREADS; i++) {
    unsigned char is_there[3];
    char *heap = (char *)(caches[i] + 1) - sizeof(struct heap);
    if (!cache_is_guest(caches[i])) continue;
    assert_int_equal(mincore(heap, sizeof(struct heap), is_there), 0);
    assert_true((is_there[0] & 1) == 0 && (is_there[1] & 1) == 0);
    guests++;
  }
  assert_true(guests >= 8);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_heap_in_which_nothing_is_is_not_locked),
      cmocka_unit_test(a_child_uses_such_heaps),
      cmocka_unit_test(a_guests_heap_takes_one_page),
  };
  return cmocka_run_group_tests_name("bare heaps", tests, NULL, NULL);
}
