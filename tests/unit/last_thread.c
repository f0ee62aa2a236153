/* last_thread.c - the thread whose end leaves the program with one sorts what is left into slabs, but only so much of it that nobody
 * waits long for its end: 4 million blocks of 16 bytes took 1.4 s. */
#include "unit_test.h"

#include <pthread.h>

#include "heap/heap.h"
#include "heap/slabs.h"

WITHOUT_SAMPLES;

enum { SIZE = 16, BLOCKS = 2 << 20, FAR_APART = 1048583 }; /* a prime: in no order */

/* 1,024 pieces of 512 blocks, what is left of a piece's last run, and a beat's 4 MiB where time passes meanwhile (release/beat.c), as on an
 * emulated processor. */
#define SORTED_MOST ((size_t)16 << 20)
#define SORTED_FROM ((size_t)20 << 20)

static void *blocks[BLOCKS];
static struct arena *arena;
static size_t waiting_at_end;

static void *free_all(void *unused) {
  for (size_t i = 0, at = 0; i < BLOCKS; i++, at = (at + FAR_APART) % BLOCKS) hak_free(blocks[at]);
  waiting_at_end = slabs_waiting(arena);
  return unused;
}

static void *live_for_a_moment(void *unused) {
  hak_free(hak_malloc(SIZE));
  waiting_at_end = slabs_waiting(arena);
  return unused;
}

static void check_end_of(void *(*body)(void *)) {
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, body, NULL), 0);
  pthread_join(thread, NULL);
  size_t after = slabs_waiting(arena);
  print_message("%zu KB waited, %zu after the end\n", waiting_at_end >> 10, after >> 10);
  assert_true(after + SORTED_MOST >= waiting_at_end);
  if (waiting_at_end >= SORTED_FROM) assert_true(after < waiting_at_end);
}

static void each_end_sorts_a_part(void **state) {
  (void)state;
  SET_OPTION(BACKGROUND, BACKGROUND_NEVER);
  SET_OPTION(WARM_POOL_DECAY_MS, VERY_LONG_MS); /* nothing is sorted because it rests */
  for (size_t i = 0; i < BLOCKS; i++) assert_non_null(blocks[i] = hak_malloc(SIZE));
  arena = cache_of_thread()->arena;
  check_end_of(free_all);
  check_end_of(live_for_a_moment);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(each_end_sorts_a_part)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
