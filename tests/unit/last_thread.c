/* last_thread.c - the thread whose end leaves the program with one sorts what is left into slabs, but only so much of it that nobody
 * waits long for its end: 4 million blocks of 16 bytes took 1.4 s. */
#include "unit_test.h"

#include <pthread.h>

#include "heap/heap.h"
#include "heap/slabs.h"

WITHOUT_SAMPLES;

enum { SIZE = 16, BLOCKS = 2 << 20, FAR_APART = 1048583 }; /* a prime: in no order */

static void *blocks[BLOCKS];

static void *free_all(void *unused) {
  for (size_t i = 0, at = 0; i < BLOCKS; i++, at = (at + FAR_APART) % BLOCKS) hak_free(blocks[at]);
  return unused;
}

static void *live_for_a_moment(void *unused) {
  hak_free(hak_malloc(SIZE));
  return unused;
}

static size_t waiting_after(void *(*body)(void *)) {
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, body, NULL), 0);
  pthread_join(thread, NULL);
  return slabs_waiting(cache_of_thread()->arena);
}

static void each_end_sorts_a_part(void **state) {
  (void)state;
  SET_OPTION(BACKGROUND, BACKGROUND_NEVER);
  SET_OPTION(WARM_POOL_DECAY_MS, VERY_LONG_MS); /* nothing is sorted because it rests */
  for (size_t i = 0; i < BLOCKS; i++) assert_non_null(blocks[i] = hak_malloc(SIZE));
  size_t all = (size_t)BLOCKS * SIZE, before = waiting_after(free_all);
  assert_in_range(before, all / 2, all - all / 8);
  size_t after = waiting_after(live_for_a_moment);
  assert_in_range(after, before - all / 2, before - all / 8);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(each_end_sorts_a_part)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
