/* growth_purges.c - a heap that grows while much of it is free gives free pages back, and does not where it has nothing to gain. */
#include "superslab/unit_os.h"
#include "unit_test.h"

#include <unistd.h>

#include "hakmem.h"
#include "heap/purger.h"
#include "heap/slabs.h"
#include "policy/options.h"
#include "release/beat.h"
#include "slab/holes.h"

WITHOUT_SAMPLES;

/* 32 MiB of large blocks, four times what a heap may keep; and as many bytes of small ones. */
enum { LARGE = 8192, LARGE_COUNT = 4096, SMALL = 64, SMALL_COUNT = LARGE_COUNT * (LARGE / SMALL) };
#define ALL ((size_t)LARGE * LARGE_COUNT)

static unsigned char *large[LARGE_COUNT];
static void **small_ones; /* each holds the address of the one before */

static struct thread_cache *mine(void) {
  struct thread_cache *heap = cache_of_thread();
  assert_non_null(heap);
  return heap;
}

static void fill_large(void) {
  for (size_t i = 0; i < LARGE_COUNT; i++) {
    if (large[i] != NULL) continue;
    assert_non_null(large[i] = hak_malloc(LARGE));
    memset(large[i], (int)(i % 251), LARGE);
  }
}

static void free_large(unsigned percent) {
  uint64_t random = 11;
  for (size_t i = 0; i < LARGE_COUNT; i++) {
    if (large[i] == NULL || random_below(&random, 100) >= percent) continue;
    assert_int_equal(large[i][0], (unsigned char)(i % 251));
    assert_int_equal(large[i][LARGE - 1], (unsigned char)(i % 251));
    hak_free(large[i]);
    large[i] = NULL;
  }
}

static void fill_small(size_t bytes) {
  for (size_t i = 0; i < bytes / SMALL; i++) {
    void **block = hak_malloc(SMALL);
    assert_non_null(block);
    *block = small_ones;
    small_ones = block;
  }
}

static int start(void **state) {
  (void)state;
  options_at_start();
  SET_OPTION(WARM_POOL_DECAY_MS, VERY_LONG_MS); /* nothing goes because it rests */
  /* Nor because others on the machine wait for memory, of which the helper thread hears where a sanitizer has one, too. */
  SET_OPTION(BACKGROUND, BACKGROUND_NEVER);
  hak_purge();
  struct thread_cache *heap = cache_of_thread();
  if (heap == NULL) return -1;
  heap->arena->peak_committed = heap->arena->growth_purge_from = 0;
  heap->arena->growth_purged = false;
  fill_large();
  return 0;
}

static int end(void **state) {
  (void)state;
  free_large(100);
  while (small_ones != NULL) {
    void **block = small_ones;
    small_ones = *block;
    hak_free(block);
  }
  hak_purge();
  return 0;
}

static void what_grows_gives_free_pages_back(void **state) {
  (void)state;
  free_large(90);
  fill_small(ALL);
  assert_true(mine()->arena->growth_purged);
  /* Four of ten slabs became empty; they leave the heap until little more than RELEASE_MOST is free. */
  assert_true(mine()->arena->decommitted_bytes > ALL / 6);
  assert_true(mine()->arena->free_bytes < RELEASE_MOST + MIB);
}

static void growth_alone_gives_nothing(void **state) {
  (void)state;
  free_large(5); /* less than RELEASE_MOST */
  fill_small(ALL);
  assert_int_equal(mine()->arena->decommitted_bytes, 0);
}

static void free_memory_alone_gives_nothing(void **state) {
  (void)state;
  free_large(90);
  fill_large();
  free_large(90);
  assert_int_equal(mine()->arena->decommitted_bytes, 0);
}

static void where_nothing_is_to_be_given_back_nothing_is(void **state) {
  (void)state;
#if HAK_FAST
  print_message("skipped: the fast variant has its options fixed at compile time\n");
  skip();
#endif
  SET_OPTION(WARM_POOL_DECAY_MS, 0);
  free_large(90);
  fill_small(ALL);
  assert_int_equal(mine()->arena->decommitted_bytes, 0);
}

static void what_was_soon_wanted_again_is_kept_the_next_time(void **state) {
  (void)state;
  free_large(90);
  fill_small(ALL);
  size_t most = mine()->arena->peak_committed;
  fill_large();
  assert_true(mine()->arena->growth_purge_from >= 2 * most);
  free_large(90);
  size_t given = mine()->arena->decommitted_bytes;
  fill_small(ALL / 2);
  assert_true(mine()->arena->peak_committed < mine()->arena->growth_purge_from);
  assert_true(mine()->arena->decommitted_bytes <= given);
}

static void small_blocks_are_not_searched_again_and_again(void **state) {
  (void)state;
  free_large(100);
  fill_small(ALL);
  /* One of eight stays: no page is free. */
  void **kept = NULL;
  for (size_t i = 0; small_ones != NULL; i++) {
    void **block = small_ones;
    small_ones = *block;
    if (i % 8 == 0) *block = kept, kept = block;
    else hak_free(block);
  }
  small_ones = kept;
  mine()->arena->growth_purge_from = 0;
  fill_large();
  assert_true(mine()->arena->growth_purge_from >
              mine()->arena->peak_committed); /* once, and not before it is larger */
}

static unsigned slabs_of_age(const struct arena_class *slabs, unsigned least) {
  unsigned count = 0;
  for (const struct slab *slab = slabs->first; slab != NULL; slab = slab->next)
    count += slab->age >= least;
  return count;
}

/* Between two beats the program may take the slab at which the look would go on: two looks are to be half the decay time apart. */
static void a_slab_that_was_taken_does_not_begin_a_scan_anew(void **state) {
  (void)state;
  struct arena_class *slabs = &mine()->arena->classes[class_for(LARGE)];
  free_large(90);
  release_request_beats();
  for (int i = 0; i < 400; i++) {
    release_beat(0);
    slabs->next_scanned = NULL;
  }
  assert_true(slabs_of_age(slabs, 1) > 0);
  assert_int_equal(slabs_of_age(slabs, 2), 0);
  assert_int_equal(mine()->arena->decommitted_bytes, 0);
}

int main(void) {
  if (sysconf(_SC_PAGESIZE) > 4 * 1024) {
    printf("skipped: with pages above 4 KiB, blocks of 8 KiB leave hardly one free\n");
    return 77;
  }
#define TEST(name) cmocka_unit_test_setup_teardown(name, start, end)
  const struct CMUnitTest tests[] = {
      TEST(
          a_slab_that_was_taken_does_not_begin_a_scan_anew), /* the first: after its look none begins */
      TEST(what_grows_gives_free_pages_back),
      TEST(growth_alone_gives_nothing),
      TEST(free_memory_alone_gives_nothing),
      TEST(where_nothing_is_to_be_given_back_nothing_is),
      TEST(what_was_soon_wanted_again_is_kept_the_next_time),
      TEST(small_blocks_are_not_searched_again_and_again),
  };
  return cmocka_run_group_tests_name("growth_purges", tests, NULL, NULL);
}
