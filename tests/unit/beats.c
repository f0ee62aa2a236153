/* beats.c - memory that waits where there is no helper thread goes back at the beats of the program's own calls. */
#include "unit_test.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "hakmem.h"
#include "heap/heap.h"
#include "release/beat.h"

WITHOUT_SAMPLES;

/* 32 MiB, of which one block in KEPT lives on, so that slabs stay, and give pages back. */
enum { SIZE = 2048, COUNT = 16384, KEPT = 16, WAIT_MS = 30000, DECAY_MS = 20 };
#define GIVEN ((size_t)SIZE * COUNT / 4 * 3)

static void fill_and_free(void **blocks) {
  for (int i = 0; i < COUNT; i++) {
    assert_non_null(blocks[i] = hak_malloc(SIZE));
    memset(blocks[i], 1, SIZE);
  }
  for (int i = 0; i < COUNT; i++)
    if (i % KEPT != 0) hak_free(blocks[i]);
}

static void free_rest(void **blocks) {
  for (int i = 0; i < COUNT; i += KEPT) hak_free(blocks[i]);
}

static size_t given_to(struct thread_cache *heap) {
  lock_acquire(&heap->arena->lock);
  size_t bytes = heap->arena->decommitted_bytes;
  lock_release(&heap->arena->lock);
  return bytes;
}

/* The calling thread lives in its bins, with a few calls a millisecond. */
static bool goes_back(struct thread_cache *heap) {
  for (int ms = 0; ms < WAIT_MS && given_to(heap) < GIVEN; ms++) {
    for (int i = 0; i < 10; i++) hak_free(hak_malloc(100));
    usleep(1000);
  }
  return given_to(heap) >= GIVEN;
}

static void a_thread_that_lives_in_its_bins_gives_back(void **state) {
  (void)state;
  static void *blocks[COUNT];
  fill_and_free(blocks);
  assert_true(release_has_beats());
  assert_true(goes_back(cache_of_thread()));
  for (int ms = 0; ms < WAIT_MS && release_has_beats(); ms++) {
    hak_free(hak_malloc(100));
    usleep(1000);
  }
  assert_false(release_has_beats());
  free_rest(blocks);
}

static struct thread_cache *_Atomic sleeper;
static atomic_bool wakes;

static void *free_and_sleep(void *unused) {
  static void *blocks[COUNT];
  fill_and_free(blocks);
  atomic_store(&sleeper, cache_of_thread());
  while (!atomic_load(&wakes)) usleep(1000);
  free_rest(blocks);
  return unused;
}

/* By others, who have less than is worth a call. */
static void what_a_thread_has_freed_that_sleeps_goes_back(void **state) {
  (void)state;
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, free_and_sleep, NULL), 0);
  while (atomic_load(&sleeper) == NULL) usleep(1000);
  release_request_beats();
  bool went = goes_back(atomic_load(&sleeper));
  atomic_store(&wakes, true);
  pthread_join(thread, NULL);
  assert_true(went);
}

/* The decay time of the fast variant is fixed at compile time. */
enum { PAUSE_US = HAK_FAST ? 6000 : 1000 };

/* Its bins run over now and then: blocks of 4 KiB, in the order in which they lie. */
static void a_thread_that_only_frees_gives_back(void **state) {
  (void)state;
  enum { OTHERS = 4000, OTHER_SIZE = 4096, FREED_AT_ONCE = 8 };
  static void *blocks[COUNT], *others[OTHERS];
  for (int i = 0; i < OTHERS; i++) assert_non_null(others[i] = hak_malloc(OTHER_SIZE));
  fill_and_free(blocks);
  int freed = 0;
  for (; freed < OTHERS && given_to(cache_of_thread()) < GIVEN; freed++) {
    hak_free(others[freed]);
    if (freed % FREED_AT_ONCE == 0) usleep(PAUSE_US);
  }
  size_t given = given_to(cache_of_thread());
  for (; freed < OTHERS; freed++) hak_free(others[freed]);
  free_rest(blocks);
  assert_in_range(given, GIVEN, SIZE_MAX);
}

/* The same of Large blocks, each of which takes a slow path. */
static void a_thread_that_only_frees_large_blocks_gives_back(void **state) {
  (void)state;
  enum { OTHERS = 300, OTHER_SIZE = 100000 };
  static void *blocks[COUNT], *others[OTHERS];
  for (int i = 0; i < OTHERS; i++) assert_non_null(others[i] = hak_malloc(OTHER_SIZE));
  fill_and_free(blocks);
  for (int i = 0; i < OTHERS; i++) {
    hak_free(others[i]);
    usleep(PAUSE_US);
  }
  size_t given = given_to(cache_of_thread());
  free_rest(blocks);
  assert_in_range(given, GIVEN, SIZE_MAX);
}

/* Of a program at full speed one call in a thousand of small blocks is a beat, and one in 128 of larger ones, beside some in each tick of the clock. */
static void assert_few_beats(size_t bytes, uint64_t between) {
  enum { CALLS = 1000000, IN_A_TICK = 22 };
  static void *blocks[COUNT];
  fill_and_free(blocks);
  assert_true(release_has_beats());
  uint64_t from = os_clock_ms(), beats = 0;
  for (int i = 0; i < CALLS; i++) {
    int64_t left = malloc_thread.sample_left;
    hak_free(hak_malloc(bytes));
    beats += malloc_thread.sample_left > left - (int64_t)bytes;
  }
  uint64_t least = CALLS * bytes / between / 2;
  uint64_t most = CALLS * bytes / between + (os_clock_ms() - from + 1) * IN_A_TICK;
  print_message("%llu beats, %llu at most\n", (unsigned long long)beats, (unsigned long long)most);
  assert_in_range(beats, least, most);
  free_rest(blocks);
}

static void busy_threads_have_few_beats(void **state) {
  (void)state;
#if HAK_FAST
  print_message("skipped: the fast variant has its options fixed at compile time\n");
  skip();
#endif
  SET_OPTION(WARM_POOL_DECAY_MS, VERY_LONG_MS);
  assert_few_beats(64, 64 * KIB);
  assert_few_beats(16 * KIB, 128 * 16 * KIB);
}

static int start(void **state) {
  (void)state;
  options_at_start();
  SET_OPTION(BACKGROUND, BACKGROUND_NEVER);
  SET_OPTION(WARM_POOL_DECAY_MS, DECAY_MS);
  hak_purge();
  return 0;
}

int main(void) {
  if (os_page_size() >= SLICE_BYTES) {
    puts("skipped: a page is as large as a slab, and no part of one goes back");
    return 77;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(a_thread_that_lives_in_its_bins_gives_back, start),
      cmocka_unit_test_setup(what_a_thread_has_freed_that_sleeps_goes_back, start),
      cmocka_unit_test_setup(a_thread_that_only_frees_gives_back, start),
      cmocka_unit_test_setup(a_thread_that_only_frees_large_blocks_gives_back, start),
      cmocka_unit_test_setup(busy_threads_have_few_beats, start),
  };
  return cmocka_run_group_tests_name("beats", tests, NULL, NULL);
}
