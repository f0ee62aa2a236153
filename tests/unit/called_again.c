/* called_again.c - calls of the purger that come while it is at work, and from threads that end: what they are about goes back
 * without another call. */
#include "unit_test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "heap/bins.h"
#include "heap/purger.h"
#include "release/release.h"

WITHOUT_SAMPLES;

#if HAK_FAST
int main(void) {
  puts("skipped: options are constants in this build");
  return 77;
}
#else

enum { SIZE = 4 * KIB, COUNT = 16384, KEPT = 16, WAIT_MS = 30000 };

static atomic_int step;
static atomic_bool stops; /* the helper is to stop at its next batch */

static void wait_for_step(int wanted) {
  while (atomic_load(&step) < wanted) usleep(100);
}

bool __real_os_decommit_all(const struct os_range *ranges, size_t count);
bool __wrap_os_decommit_all(const struct os_range *ranges,
                            size_t count); /* the linker calls it so */
bool __wrap_os_decommit_all(const struct os_range *ranges, size_t count) {
  if (count > 0 && atomic_exchange(&stops, false)) {
    atomic_store(&step, 2);
    wait_for_step(3);
  }
  return __real_os_decommit_all(ranges, count);
}

static bool comes_true(bool (*is_so)(void)) {
  for (int ms = 0; ms < WAIT_MS; ms += 10) {
    if (is_so()) return true;
    usleep(10000);
  }
  return false;
}

static bool helper_rests(void) { return atomic_load(&purger_helper) != HELPER_RUNS; }

static void fill(void **blocks) {
  for (int i = 0; i < COUNT; i++) {
    assert_non_null(blocks[i] = hak_malloc(SIZE));
    memset(blocks[i], 1, SIZE);
  }
}

/* All but each KEPT-th; or those. */
static void free_from(void **blocks, bool kept) {
  for (int i = 0; i < COUNT; i++)
    if ((i % KEPT == 0) == kept) hak_free(blocks[i]);
}

static struct thread_cache *younger; /* before all others in the list of heaps */

static size_t given_to(struct thread_cache *heap) {
  lock_acquire(&heap->arena->lock);
  size_t bytes = heap->arena->decommitted_bytes;
  lock_release(&heap->arena->lock);
  return bytes;
}

static void *free_while_the_helper_is_at_work(void *unused) {
  static void *blocks[COUNT];
  fill(blocks);
  younger = cache_of_thread();
  atomic_store(&step, 1);
  wait_for_step(2);
  free_from(blocks, false);
  atomic_store(&step, 3);
  wait_for_step(4);
  free_from(blocks, true);
  return unused;
}

static bool younger_has_given(void) { return given_to(younger) >= (size_t)SIZE * COUNT / 2; }

static void what_the_helper_has_passed_is_scanned_again(void **state) {
  (void)state;
  static void *blocks[COUNT];
  pthread_t thread;
  fill(blocks);
  assert_int_equal(pthread_create(&thread, NULL, free_while_the_helper_is_at_work, NULL), 0);
  wait_for_step(1);
  assert_ptr_equal(arena_first(), arena_beside(younger));
  assert_true(comes_true(helper_rests));
  atomic_store(&stops, true);
  free_from(blocks, false);
  wait_for_step(3);
  assert_true(comes_true(younger_has_given));
  assert_true(comes_true(helper_rests));
  atomic_store(&step, 4);
  pthread_join(thread, NULL);
  free_from(blocks, true);
}

/* --- threads that end ----------------------------------------------------------------------------------------------- */

enum { THREADS = 24, OF_A_CLASS = 256 * KIB, ROUNDS = 10 * MEETINGS };

static pthread_barrier_t all_are_there;

/* Bins as full as they get, and nothing else that is free. */
static void *fill_bins(void *unused) {
  static _Thread_local void *blocks[OF_A_CLASS / 16];
  pthread_barrier_wait(&all_are_there);
  for (int round = 0; round < ROUNDS; round++)
    for (size_t size = 32; size <= 2 * KIB; size += size / 4 / 16 * 16 + 16) {
      size_t count = OF_A_CLASS / size;
      for (size_t i = 0; i < count; i++) assert_non_null(blocks[i] = hak_malloc(size));
      for (size_t i = 0; i < count; i++) hak_free(blocks[i]);
    }
  pthread_barrier_wait(&all_are_there);
  while (!helper_rests()) usleep(1000);
  return unused;
}

static size_t in_parked_bins(void) {
  size_t bytes = 0;
  for (struct arena *heap = arena_first(); heap != NULL; heap = heap->next) {
    lock_acquire(&heap->lock);
    if (atomic_load(&heap->state) == ARENA_PARKED) bytes += bins_bytes(cache_beside(heap)->bins);
    lock_release(&heap->lock);
  }
  return bytes;
}

static bool parked_bins_are_few(void) { return in_parked_bins() < RELEASE_MOST; }

static bool not_any_more(void) { return false; }

/* A helper that ends in the middle of a scan would take what it has not come to for nothing, and the program's own calls, which go on with it,
 * would not be told. */
static void a_scan_that_is_broken_off_has_not_seen_all(void **state) {
  (void)state;
  assert_true(release_scan(IDLE_SCANS, not_any_more) > RELEASE_LEFT_OVER);
  assert_true(release_scan(0, helper_rests) <= RELEASE_LEFT_OVER);
}

static void bins_of_ended_threads_go_back(void **state) {
  (void)state;
  pthread_t threads[THREADS];
  pthread_barrier_init(&all_are_there, NULL, THREADS);
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, fill_bins, NULL), 0);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  /* This thread does nothing that could call. */
  assert_true(comes_true(parked_bins_are_few));
  assert_true(comes_true(helper_rests));
}

static int start(void **state) {
  (void)state;
  options_at_start();
  SET_OPTION(BACKGROUND, BACKGROUND_ALWAYS);
  SET_OPTION(WARM_POOL_DECAY_MS, 20);
  SET_OPTION(SS_HUGEPAGE, HUGEPAGE_OFF); /* to break one up leads to another look, too */
  return 0;
}

int main(void) {
  if (os_page_size() >= SLICE_BYTES) {
    puts("skipped: a page is as large as a slab, and no part of one goes back");
    return 77;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_scan_that_is_broken_off_has_not_seen_all),
      cmocka_unit_test(what_the_helper_has_passed_is_scanned_again),
      cmocka_unit_test(bins_of_ended_threads_go_back),
  };
  return cmocka_run_group_tests_name("called again", tests, start, NULL);
}
#endif
