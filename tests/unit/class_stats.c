/* class_stats.c - hak_class_stats_get: after a known row of calls each class has exactly these figures.
 *
 * Usage: class_stats [off]. With "off" nothing asks for counting, and nothing is counted.
 */
#include "unit_test.h"

#include <errno.h>
#include <pthread.h>
#include <sys/wait.h>

#include "api/totals.h"
#include "heap/bins.h"
#include "policy/options.h"
#include "slab/size_class.h"

WITHOUT_SAMPLES;

enum { BLOCKS = 7, ELSEWHERE = 3 };

static struct hak_class_stats get(unsigned number) {
  struct hak_class_stats stats = {.size = sizeof stats};
  assert_int_equal(hak_class_stats_get(number, &stats), 0);
  assert_int_equal(stats.version, 1);
  assert_int_equal(stats.alloc, stats.fast + stats.slow);
  assert_int_equal(stats.free, stats.free_fast_local + stats.free_remote);
  return stats;
}

/* What happened to a class between two looks at it. */
static void check_change(const struct hak_class_stats *before, unsigned number, uint64_t fast,
                         uint64_t slow, uint64_t local, uint64_t remote) {
  struct hak_class_stats now = get(number);
  assert_int_equal(now.fast - before->fast, fast);
  assert_int_equal(now.slow - before->slow, slow);
  assert_int_equal(now.free_fast_local - before->free_fast_local, local);
  assert_int_equal(now.free_remote - before->free_remote, remote);
}

/* --- its interface ------------------------------------------------------------------------------------ */

static void refuses_null_small_structs_and_unknown_classes(void **state) {
  (void)state;
  struct hak_class_stats stats;
  assert_int_equal(hak_class_stats_get(0, NULL), EINVAL);
  for (uint32_t size = 0; size < sizeof stats; size++) {
    memset(&stats, 0xaa, sizeof stats);
    stats.size = size;
    assert_int_equal(hak_class_stats_get(0, &stats), EINVAL);
    assert_int_equal(stats.version, 0xaaaaaaaa);
  }
  stats.size = sizeof stats;
  assert_int_equal(hak_class_stats_get(COUNTED_CLASSES, &stats), EINVAL);
  assert_int_equal(hak_class_stats_get(UINT32_MAX, &stats), EINVAL);
}

static void keeps_errno(void **state) {
  (void)state;
  errno = 1234;
  (void)get(3);
  assert_int_equal(errno, 1234);
}

static void classes_ascend_and_end_with_large_and_huge(void **state) {
  (void)state;
  uint64_t last = 0;
  for (unsigned c = 0; c < CLASS_COUNT; c++) {
    struct hak_class_stats stats = get(c);
    assert_int_equal(stats.tier, HAK_TIER_SMALL);
    assert_true(stats.block_size > last);
    last = stats.block_size;
    void *p = hak_malloc((size_t)last);
    assert_int_equal(hak_usable_size(p), last);
    hak_free(p);
  }
  assert_int_equal(last, SMALL_MAX);
  assert_int_equal(get(COUNTED_LARGE).tier, HAK_TIER_LARGE);
  assert_int_equal(get(COUNTED_HUGE).tier, HAK_TIER_HUGE);
  assert_int_equal(get(COUNTED_HUGE).block_size, 0);
}

static void nothing_is_counted_unasked(void **state) {
  (void)state;
  for (unsigned c = 0; c < COUNTED_CLASSES; c++) {
    struct hak_class_stats stats = get(c);
    assert_int_equal(stats.counting, 0);
    assert_int_equal(stats.alloc + stats.free, 0);
  }
}

/* Which does not need counting; the fast variant has not even this. */
static void supply_is_always_known(void **state) {
  (void)state;
  uint64_t slabs = 0;
  for (unsigned c = 0; c < COUNTED_CLASSES; c++) slabs += get(c).warm_hits + get(c).warm_misses;
#if HAK_FAST
  assert_int_equal(slabs, 0);
#else
  assert_true(slabs > 0);
#endif
}

/* --- known rows of calls ------------------------------------------------------------------------------- */

static void *free_all(void *argument) {
  for (void **blocks = argument; *blocks != NULL; blocks++) hak_free(*blocks);
  return NULL;
}

static void free_elsewhere(void **blocks) {
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, free_all, blocks), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
}

static void take(void **blocks, size_t count, size_t size) {
  for (size_t i = 0; i < count; i++) assert_non_null(blocks[i] = hak_malloc(size));
}

/* Blocks that come with one refill of a class that nobody used before. */
static uint64_t blocks_of_a_refill(size_t size) {
  size_t blocks = 4 * KIB / size;
  return blocks > 64 ? 64 : blocks == 0 ? 1 : blocks;
}

static unsigned slabs_for(unsigned size_class, unsigned blocks) {
  unsigned fit =
      (unsigned)(((size_t)class_slices(size_class) << SLICE_SHIFT) / class_size(size_class));
  return (blocks + fit - 1) / fit;
}

/* So that none runs over: they grow by and by. */
static void give_bins_room(void) {
  struct thread_cache *cache = cache_of_thread();
  for (unsigned c = 0; c < CLASS_COUNT; c++) {
    assert_null(cache->bins[c].head);
    cache->bins[c].capacity = 2 * BLOCKS;
    cache->bins[c].room = 2 * BLOCKS;
  }
  bins_count(cache);
}

/* First of all, while every class is untouched. */
static void each_class_counts_what_is_done_to_it(void **state) {
  (void)state;
  give_bins_room();
  for (unsigned c = 0; c < CLASS_COUNT; c++) {
    void *blocks[BLOCKS + 1] = {NULL};
    struct hak_class_stats before = get(c);
    size_t size = (size_t)before.block_size;
    assert_int_equal(before.alloc + before.free + before.warm_hits + before.warm_misses, 0);
    uint64_t refill = blocks_of_a_refill(size), slow = (BLOCKS + refill - 1) / refill;
    take(blocks, BLOCKS, size);
    check_change(&before, c, BLOCKS - slow, slow, 0, 0);
    for (int i = 0; i < BLOCKS; i++) hak_free(blocks[i]);
    check_change(&before, c, BLOCKS - slow, slow, BLOCKS, 0);
    take(blocks, BLOCKS, size); /* from the bin, all of them */
    check_change(&before, c, 2 * BLOCKS - slow, slow, BLOCKS, 0);
    free_elsewhere(blocks + BLOCKS - ELSEWHERE);
    check_change(&before, c, 2 * BLOCKS - slow, slow, BLOCKS, ELSEWHERE);
    for (int i = 0; i < BLOCKS - ELSEWHERE; i++) hak_free(blocks[i]);
    check_change(&before, c, 2 * BLOCKS - slow, slow, 2 * BLOCKS - ELSEWHERE, ELSEWHERE);
    struct hak_class_stats after = get(c);
    assert_int_equal(after.warm_hits + after.warm_misses, slabs_for(c, BLOCKS));
    assert_int_equal(after.counting, 1);
    for (unsigned other = 0; other < COUNTED_CLASSES; other++) {
      struct hak_class_stats stats = get(other);
      assert_int_equal(stats.alloc, other <= c ? 2 * BLOCKS : 0);
      assert_int_equal(stats.free, other <= c ? 2 * BLOCKS : 0);
    }
  }
}

/* Fails if a figure of the observe variant does not add up; other variants leave them 0. */
static void stages_add_up(void **state) {
  (void)state;
  for (unsigned c = 0; c < CLASS_COUNT; c++) {
    struct class_totals totals;
    totals_of_class(c, &totals);
    uint64_t carved = totals.of[COUNT_CARVED], slow = totals.of[COUNT_SLOW];
#if HAK_OBSERVE
    assert_int_equal(carved, slow * blocks_of_a_refill(totals.size));
    assert_int_equal(totals.of[COUNT_NEW_SLAB], slabs_for(c, BLOCKS));
#else
    (void)slow;
    assert_int_equal(carved + totals.of[COUNT_NEW_SLAB], 0);
#endif
    assert_int_equal(
        totals.of[COUNT_FROM_SLABS] + totals.of[COUNT_FROM_OTHERS] + totals.of[COUNT_ADOPTED], 0);
    /* What a thread that has ended kept goes back before a further class makes its slab: once. */
    assert_in_range(totals.of[COUNT_TO_SLABS], 0, carved);
  }
}

/* Enough blocks for bins to run over, twice. */
static void blocks_that_go_back_to_slabs_are_told(void **state) {
  (void)state;
  enum { MANY = 40000, SIZE = 96 };
  static void *blocks[MANY];
  unsigned c = class_for(SIZE);
  struct class_totals before, after;
  struct hak_class_stats start = get(c);
  totals_of_class(c, &before);
  for (int round = 0; round < 2; round++) {
    take(blocks, MANY, SIZE);
    for (int i = 0; i < MANY; i++) hak_free(blocks[i]);
  }
  totals_of_class(c, &after);
  assert_int_equal(after.alloc - before.alloc, 2 * MANY);
  assert_int_equal(after.free - before.free, 2 * MANY);
  struct hak_class_stats end = get(c);
  assert_int_equal(end.free_fast_local - start.free_fast_local, 2 * MANY);
  assert_true(end.warm_hits + end.warm_misses > start.warm_hits + start.warm_misses + 50);
#if HAK_OBSERVE
  uint64_t in[COUNTERS];
  for (int i = 0; i < COUNTERS; i++) in[i] = after.of[i] - before.of[i];
  assert_true(in[COUNT_TO_SLABS] > MANY / 2 && in[COUNT_TO_SLABS] < 2 * MANY);
  assert_true(in[COUNT_NEW_SLAB] > 50);
  /* What came out of slabs and sendings, and did not go back, is in the bin: nothing is live. */
  uint64_t came = after.of[COUNT_FROM_SLABS] + after.of[COUNT_FROM_OTHERS] + after.of[COUNT_CARVED];
  uint64_t left = after.of[COUNT_TO_SLABS] + after.of[COUNT_FREE_REMOTE];
  assert_in_range(came - left, 1, 256 * KIB / SIZE);
#endif
}

static void large_and_huge_blocks_are_counted(void **state) {
  (void)state;
  static const size_t sizes[] = {SMALL_MAX + 1, 3 * MIB};
  for (unsigned i = 0; i < 2; i++) {
    void *blocks[BLOCKS + 1] = {NULL};
    unsigned number = COUNTED_LARGE + i;
    struct hak_class_stats before = get(number);
    take(blocks, BLOCKS, sizes[i]);
    check_change(&before, number, 0, BLOCKS, 0, 0);
    free_elsewhere(blocks + BLOCKS - ELSEWHERE);
    for (int k = 0; k < BLOCKS - ELSEWHERE; k++) hak_free(blocks[k]);
    check_change(&before, number, 0, BLOCKS, BLOCKS, 0);
    assert_int_equal(get(number).warm_hits + get(number).warm_misses - before.warm_hits -
                         before.warm_misses,
                     BLOCKS);
  }
}

static void every_way_to_allocate_counts(void **state) {
  (void)state;
  unsigned c = class_for(400), aligned = class_for_aligned(400, 256);
  struct hak_class_stats before = get(c), before_aligned = get(aligned);
  void *p[4] = {hak_malloc(400), hak_calloc(4, 100), hak_realloc(NULL, 400),
                hak_reallocarray(NULL, 4, 100)};
  assert_int_equal(get(c).alloc - before.alloc, 4);
  hak_free(p[0]);
  hak_free_sized(p[1], 400);
  hak_free_aligned_sized(p[2], 16, 400);
  assert_null(hak_realloc(p[3], 0));
  assert_int_equal(get(c).free - before.free, 4);
  void *q = NULL;
  p[0] = hak_aligned_alloc(256, 400);
  assert_int_equal(hak_posix_memalign(&q, 256, 400), 0);
  assert_int_equal(get(aligned).alloc - before_aligned.alloc, 2);
  hak_free(p[0]);
  hak_free(q);
  assert_int_equal(get(aligned).free - before_aligned.free, 2);
}

static void realloc_counts_where_it_moves_a_block(void **state) {
  (void)state;
  unsigned small = class_for(100), wide = class_for(5000);
  struct hak_class_stats before = get(small), before_wide = get(wide);
  char *p = hak_malloc(100);
  p = hak_realloc(p, 102);
  assert_int_equal(get(small).alloc - before.alloc, 1);
  p = hak_realloc(p, 5000);
  assert_int_equal(get(small).free - before.free, 1);
  assert_int_equal(get(wide).alloc - before_wide.alloc, 1);
  hak_free(p);
  struct hak_class_stats huge = get(COUNTED_HUGE);
  p = hak_malloc(3 * MIB);
  p = hak_realloc(p, 9 * MIB); /* stays one block, wherever its pages go */
  assert_non_null(p);
  assert_int_equal(get(COUNTED_HUGE).alloc - huge.alloc, 1);
  hak_free(p);
  assert_int_equal(get(COUNTED_HUGE).free - huge.free, 1);
}

static void failures_are_not_counted(void **state) {
  (void)state;
  uint64_t before = 0, after = 0;
  for (unsigned c = 0; c < COUNTED_CLASSES; c++) before += get(c).alloc;
  void *volatile p = hak_malloc(SIZE_MAX / 2 - 100);
  assert_null(p);
  volatile size_t no_alignment = 3;
  assert_null(hak_aligned_alloc(no_alignment, 100));
  hak_free(NULL);
  for (unsigned c = 0; c < COUNTED_CLASSES; c++) after += get(c).alloc;
  assert_int_equal(before, after);
}

/* --- where memory comes from --------------------------------------------------------------------------- */

static void the_warm_pool_is_a_hit(void **state) {
  (void)state;
  SET_OPTION(WARM_POOL_DECAY_MS, VERY_LONG_MS);
  hak_purge();
  struct hak_class_stats before = get(COUNTED_HUGE);
  hak_free(hak_malloc(4 * MIB));
  hak_free(hak_malloc(4 * MIB));
  struct hak_class_stats after = get(COUNTED_HUGE);
  assert_int_equal(after.warm_misses - before.warm_misses, 1);
  assert_int_equal(after.warm_hits - before.warm_hits, 1);
  hak_purge();
  hak_free(hak_malloc(4 * MIB));
  assert_int_equal(get(COUNTED_HUGE).warm_misses - before.warm_misses, 2);
}

static void a_full_slab_asks_for_another(void **state) {
  (void)state;
  enum { SIZE = 8192, SLABS = 70, IN_SLAB = 8 };
  static void *blocks[SLABS * IN_SLAB];
  unsigned c = class_for(SIZE);
  hak_purge();
  struct hak_class_stats before = get(c);
  take(blocks, SLABS * IN_SLAB, SIZE);
  struct hak_class_stats after = get(c);
  uint64_t hits = after.warm_hits - before.warm_hits;
  uint64_t misses = after.warm_misses - before.warm_misses;
  assert_int_equal(hits + misses, SLABS);
  assert_in_range(misses, SLABS / 32, SLABS / 32 + 1); /* 32 slabs of a slice in each unit */
  for (int i = 0; i < SLABS * IN_SLAB; i++) hak_free(blocks[i]);
}

/* --- threads and processes ------------------------------------------------------------------------------ */

static pthread_key_t key;

/* In the second round of destructors, after the allocator's own: the thread has no heap any more. */
static void past_the_end(void *block) {
  static _Thread_local bool again;
  if (!again) {
    again = true;
    assert_int_equal(pthread_setspecific(key, block), 0);
    return;
  }
  hak_free(block);
  hak_free(hak_malloc(300));
  hak_free(hak_malloc(200 * KIB));
  hak_free(hak_malloc(3 * MIB));
}

static void *end_with_a_block(void *unused) {
  (void)unused;
  assert_int_equal(pthread_setspecific(key, hak_malloc(300)), 0);
  return NULL;
}

static void a_thread_past_its_end_counts(void **state) {
  (void)state;
  unsigned c = class_for(300);
  struct hak_class_stats before = get(c), large = get(COUNTED_LARGE), huge = get(COUNTED_HUGE);
  pthread_t thread;
  /* Destructors run in the order of their keys: this one's comes after the library's, which is one of the first 32. */
  pthread_key_t before_ours[32];
  for (int i = 0; i < 32; i++) assert_int_equal(pthread_key_create(&before_ours[i], NULL), 0);
  assert_int_equal(pthread_key_create(&key, past_the_end), 0);
  assert_int_equal(pthread_create(&thread, NULL, end_with_a_block, NULL), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
  assert_int_equal(pthread_key_delete(key), 0);
  for (int i = 0; i < 32; i++) assert_int_equal(pthread_key_delete(before_ours[i]), 0);
  assert_int_equal(get(c).alloc - before.alloc, 2);
  assert_int_equal(get(c).free - before.free, 2);
  assert_int_equal(get(COUNTED_LARGE).alloc - large.alloc, 1);
  assert_int_equal(get(COUNTED_LARGE).free - large.free, 1);
  assert_int_equal(get(COUNTED_HUGE).alloc - huge.alloc, 1);
  assert_int_equal(get(COUNTED_HUGE).free - huge.free, 1);
  /* It had no heap, or this would be another test. */
  assert_int_equal(counters_read(&counters_shared.of[COUNTED_LARGE][COUNT_SLOW]), 1);
  assert_int_equal(counters_read(&counters_shared.of[c][COUNT_FREE_REMOTE]), 2);
}

/* In the child of a fork: goes on from the parent's figures, and keeps the heap for itself. */
static bool child_is_right(unsigned number, const struct hak_class_stats *before) {
  struct hak_class_stats now = {.size = sizeof now};
  struct hak_stats all = {.size = sizeof all};
  void *blocks[BLOCKS + 1] = {NULL};
  pthread_t thread;
  for (int i = 0; i < BLOCKS; i++) blocks[i] = hak_malloc((size_t)before->block_size);
  if (hak_stats_get(&all) != 0 || all.heaps_active != 1) return false;
  if (pthread_create(&thread, NULL, free_all, blocks) != 0) return false;
  if (pthread_join(thread, NULL) != 0) return false;
  return hak_class_stats_get(number, &now) == 0 && now.alloc == before->alloc + BLOCKS &&
         now.free_remote == before->free_remote + BLOCKS &&
         now.free_fast_local == before->free_fast_local;
}

static void a_child_counts_on(void **state) {
  (void)state;
  unsigned c = class_for(700);
  hak_free(hak_malloc(700));
  struct hak_class_stats before = get(c);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) _exit(child_is_right(c, &before) ? 0 : 1);
  int status = 1;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  assert_int_equal(get(c).alloc, before.alloc);
}

/* Bins are real while operations are counted: a purge finds what is in them, and the figures of bytes hold. */
static void purge_finds_the_bins_of_a_heap_that_counts(void **state) {
  (void)state;
  enum { MANY = 1000 };
  static void *blocks[MANY];
  take(blocks, MANY, 2000);
  for (int i = 0; i < MANY; i++) hak_free(blocks[i]);
  struct totals totals;
  totals_get(&totals, true);
  assert_true(totals.in_bins > 0);
  hak_purge();
  totals_get(&totals, true);
  assert_int_equal(totals.in_bins, 0);
  assert_int_equal(totals.in_use, 0);
  assert_int_equal(totals.superslab.live, 0);
}

int main(int argc, char **argv) {
  (void)argv;
  bool counts = HAK_OBSERVE || (argc == 1 && !HAK_FAST);
  const struct CMUnitTest interface[] = {
      cmocka_unit_test(refuses_null_small_structs_and_unknown_classes),
      cmocka_unit_test(keeps_errno),
      cmocka_unit_test(classes_ascend_and_end_with_large_and_huge),
      cmocka_unit_test(supply_is_always_known),
  };
  const struct CMUnitTest off[] = {
      cmocka_unit_test(nothing_is_counted_unasked),
  };
  const struct CMUnitTest counting[] = {
      cmocka_unit_test(each_class_counts_what_is_done_to_it), /* the first two: in this order */
      cmocka_unit_test(stages_add_up),
      cmocka_unit_test(blocks_that_go_back_to_slabs_are_told),
      cmocka_unit_test(large_and_huge_blocks_are_counted),
      cmocka_unit_test(every_way_to_allocate_counts),
      cmocka_unit_test(realloc_counts_where_it_moves_a_block),
      cmocka_unit_test(failures_are_not_counted),
      cmocka_unit_test(the_warm_pool_is_a_hit),
      cmocka_unit_test(a_full_slab_asks_for_another),
      cmocka_unit_test(a_thread_past_its_end_counts),
      cmocka_unit_test(a_child_counts_on),
      cmocka_unit_test(purge_finds_the_bins_of_a_heap_that_counts),
  };
  /* Read with the first allocation. */
  if (argc == 1 && setenv("HAKMEM_TINY_HEAP_STATS", "1", 1) != 0) return 1;
  int failed = 0;
  if (counts) failed += cmocka_run_group_tests_name("class_stats counting", counting, NULL, NULL);
  failed += cmocka_run_group_tests_name("class_stats", interface, NULL, NULL);
  if (!counts) failed += cmocka_run_group_tests_name("class_stats off", off, NULL, NULL);
  return failed;
}
