/* stats.c - hak_stats_get: its versioning, and that its figures follow what happens. */
#include "unit_test.h"

#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include "superslab/figures.h"

WITHOUT_SAMPLES;

static struct hak_stats get(void) {
  struct hak_stats stats = {.size = sizeof stats};
  assert_int_equal(hak_stats_get(&stats), 0);
  assert_int_equal(stats.version, 1);
  assert_int_equal(stats.size, sizeof stats);
  return stats;
}

static void refuses_null_and_small_structs(void **state) {
  (void)state;
  struct hak_stats stats;
  assert_int_equal(hak_stats_get(NULL), EINVAL);
  for (uint32_t size = 0; size <= 2 * sizeof(uint32_t); size++) {
    memset(&stats, 0xaa, sizeof stats);
    stats.size = size;
    assert_int_equal(hak_stats_get(&stats), EINVAL);
    assert_int_equal(stats.version, 0xaaaaaaaa);
  }
}

/* A program built against a newer header: what this library does not know stays as it was. */
static void leaves_fields_of_newer_versions_alone(void **state) {
  (void)state;
  struct {
    struct hak_stats known;
    unsigned char newer[64];
  } stats;
  memset(&stats, 0xaa, sizeof stats);
  stats.known.size = sizeof stats;
  assert_int_equal(hak_stats_get(&stats.known), 0);
  assert_int_equal(stats.known.version, 1);
  for (size_t i = 0; i < sizeof stats.newer; i++) assert_int_equal(stats.newer[i], 0xaa);
  assert_true(stats.known.bytes_mapped < (uint64_t)1 << 47);
}

/* A program built against an older header: the fields that it knows are filled in, and nothing behind them. */
static void fills_what_an_older_version_knows(void **state) {
  (void)state;
  struct hak_stats full = get(), part;
  memset(&part, 0xaa, sizeof part);
  part.size = offsetof(struct hak_stats, huge_live);
  assert_int_equal(hak_stats_get(&part), 0);
  assert_int_equal(part.version, 1);
  assert_int_equal(part.superslabs_peak, full.superslabs_peak);
  assert_int_equal(part.huge_live, 0xaaaaaaaaaaaaaaaa);
}

/* What the figures of memory say after a known pattern: live blocks, freed neighbours, pages given back. */
static void memory_is_where_it_is_said_to_be(void **state) {
  (void)state;
  enum { BLOCKS = 8000, SIZE = 1024 };
  static void *blocks[BLOCKS];
  struct hak_memory_stats before = {.size = sizeof before}, full = before, thinned = before;
  assert_int_equal(hak_memory_stats_get(NULL), EINVAL);
  assert_int_equal(hak_memory_stats_get(&(struct hak_memory_stats){.size = 8}), EINVAL);
  hak_purge();
  assert_int_equal(hak_memory_stats_get(&before), 0);
  for (int i = 0; i < BLOCKS; i++) {
    assert_non_null(blocks[i] = hak_malloc(SIZE));
    memset(blocks[i], 1, SIZE);
  }
  assert_int_equal(hak_memory_stats_get(&full), 0);
  assert_in_range(full.live - before.live, BLOCKS * SIZE, BLOCKS * SIZE + 512 * 1024);
  assert_true(full.resident > BLOCKS * SIZE);
  /* Of each 32 blocks, which are eight pages, the first and the last two stay. */
  for (int i = 0; i < BLOCKS; i++)
    if (i % 32 != 0 && i % 32 < 30) hak_free(blocks[i]);
  hak_purge();
  assert_int_equal(hak_memory_stats_get(&thinned), 0);
  assert_in_range(thinned.live - before.live, BLOCKS * SIZE / 32 * 3,
                  BLOCKS * SIZE / 32 * 3 + 65536);
  if (sysconf(_SC_PAGESIZE) == 4096) { /* in larger pages there is a live block in each */
    assert_in_range(thinned.given, BLOCKS * SIZE / 2, BLOCKS * SIZE * 7 / 8);
    assert_in_range(thinned.pinned, BLOCKS * SIZE / 32, BLOCKS * SIZE / 3);
  }
  for (int i = 0; i < BLOCKS; i++)
    if (i % 32 == 0 || i % 32 >= 30) hak_free(blocks[i]);
}

static pthread_barrier_t cached, counted;

static void *cache_large_blocks(void *unused) {
  enum { BLOCKS = 8, SIZE = 512 * 1024 };
  void *blocks[BLOCKS];
  (void)unused;
  for (int i = 0; i < BLOCKS; i++) {
    assert_non_null(blocks[i] = hak_malloc(SIZE));
    memset(blocks[i], 1, SIZE);
  }
  for (int i = 0; i < BLOCKS; i++) hak_free(blocks[i]);
  pthread_barrier_wait(&cached);
  pthread_barrier_wait(&counted);
  return NULL;
}

/* Large blocks of a thread's cache whose pages went back lie in no slab. */
static void given_large_blocks_are_not_of_what_is_pinned(void **state) {
  (void)state;
  enum { BLOCKS = 2000, SIZE = 1024, HELD = 24 };
  static void *blocks[BLOCKS], *held[HELD]; /* a cache has at most half of what is in use */
  struct hak_memory_stats before = {.size = sizeof before}, after = before;
  pthread_t thread;
  assert_int_equal(pthread_barrier_init(&cached, NULL, 2), 0);
  assert_int_equal(pthread_barrier_init(&counted, NULL, 2), 0);
  for (int i = 0; i < HELD; i++) assert_non_null(held[i] = hak_malloc(512 * KIB));
  for (int i = 0; i < BLOCKS; i++) assert_non_null(blocks[i] = hak_malloc(SIZE));
  for (int i = 0; i < BLOCKS; i += 2) hak_free(blocks[i]); /* no page without a live block */
  hak_purge();
  assert_int_equal(hak_memory_stats_get(&before), 0);
  assert_true(before.pinned > BLOCKS * SIZE / 4);
  assert_int_equal(pthread_create(&thread, NULL, cache_large_blocks, NULL), 0);
  pthread_barrier_wait(&cached);
  hak_purge();
  assert_int_equal(hak_memory_stats_get(&after), 0);
  pthread_barrier_wait(&counted);
  pthread_join(thread, NULL);
  assert_in_range(after.given - before.given, 3 * MIB, 5 * MIB);
  assert_in_range(after.pinned, before.pinned, before.pinned + 128 * KIB);
  for (int i = 1; i < BLOCKS; i += 2) hak_free(blocks[i]);
  for (int i = 0; i < HELD; i++) hak_free(held[i]);
}

static void keeps_errno(void **state) {
  (void)state;
  errno = 1234;
  (void)get();
  assert_int_equal(errno, 1234);
}

static void huge_blocks_are_counted(void **state) {
  (void)state;
  struct hak_stats before = get();
  void *p = hak_malloc(10 * MIB);
  void *q = hak_malloc(30 * MIB);
  assert_true(p != NULL && q != NULL);
  struct hak_stats during = get();
  assert_int_equal(during.huge_live, before.huge_live + 2);
  assert_in_range(during.huge_bytes - before.huge_bytes, 40 * MIB, 44 * MIB);
  assert_true(during.bytes_mapped >= during.huge_bytes);
  q = hak_realloc(q, 60 * MIB);
  assert_non_null(q);
  struct hak_stats grown = get();
  assert_int_equal(grown.huge_live, before.huge_live + 2);
  assert_in_range(grown.huge_bytes - before.huge_bytes, 70 * MIB, 74 * MIB);
  q = hak_realloc(q, 20 * MIB);
  assert_non_null(q);
  struct hak_stats shrunk = get();
  assert_in_range(shrunk.huge_bytes - before.huge_bytes, 30 * MIB, 34 * MIB);
  hak_free(p);
  hak_free(q);
  struct hak_stats after = get();
  assert_int_equal(after.huge_live, before.huge_live);
  assert_int_equal(after.huge_bytes, before.huge_bytes);
}

/* A handler that calls exit() may have interrupted this thread inside. */
static void who_holds_the_lock_does_not_wait_for_it(void **state) {
  (void)state;
  struct superslab_stats stats;
  lock_acquire(&superslab_lock);
  assert_false(superslab_stats_get(&stats, true));
  assert_int_equal(stats.bytes_mapped, 0);
  lock_release(&superslab_lock);
  assert_true(superslab_stats_get(&stats, true));
}

static void superslabs_come_and_go(void **state) {
  (void)state;
  enum { BLOCKS = 40000, SIZE = 1000 };
  static void *blocks[BLOCKS];
  hak_purge();
  struct hak_stats before = get();
  for (int i = 0; i < BLOCKS; i++) {
    blocks[i] = hak_malloc(SIZE);
    assert_non_null(blocks[i]);
  }
  struct hak_stats during = get();
  uint64_t expected = (uint64_t)BLOCKS * SIZE / (2 * MIB);
  assert_true(during.superslabs_live >= before.superslabs_live + expected - 1);
  assert_true(during.superslabs_peak >= during.superslabs_live);
  assert_true(during.bytes_slab >= before.bytes_slab + (uint64_t)BLOCKS * SIZE - 2 * MIB);
  assert_true(during.bytes_mapped >= during.bytes_slab + during.huge_bytes);
  assert_true(during.os_mmap > before.os_mmap);
  assert_true(during.bytes_metadata > 0);
  for (int i = 0; i < BLOCKS; i++) hak_free(blocks[i]);
  size_t purged = hak_purge();
  struct hak_stats after = get();
  assert_true(purged > 0); /* some of it is with the OS already: the warm pool starts small */
  assert_true(during.bytes_mapped - after.bytes_mapped >= 30 * MIB);
  assert_true(after.superslabs_live <= before.superslabs_live);
  assert_int_equal(after.superslabs_warm, 0);
  assert_true(after.superslabs_peak >= during.superslabs_live);
  assert_true(after.bytes_mapped <= before.bytes_mapped);
  assert_true(after.os_munmap > before.os_munmap);
}

static void everything_freed_leaves_no_superslab(void **state) {
  (void)state;
  enum { BLOCKS = 500 };
  static void *blocks[TEST_SIZE_COUNT][BLOCKS];
  for (int s = 0; s < TEST_SIZE_COUNT; s++)
    for (int i = 0; i < (test_sizes[s] < 64 * KIB ? BLOCKS : 3); i++) {
      blocks[s][i] = hak_malloc(test_sizes[s]);
      assert_non_null(blocks[s][i]);
    }
  for (int s = 0; s < TEST_SIZE_COUNT; s++)
    for (int i = 0; i < (test_sizes[s] < 64 * KIB ? BLOCKS : 3); i++) hak_free(blocks[s][i]);
  hak_purge();
  struct hak_stats after = get();
  assert_int_equal(after.superslabs_live, 0);
  assert_int_equal(after.superslabs_warm, 0);
  assert_int_equal(after.huge_live, 0);
  assert_int_equal(after.huge_bytes, 0);
  assert_int_equal(after.bytes_slab, 0);
  assert_int_equal(after.bytes_mapped, 0);
}

static pthread_barrier_t allocated, looked;

static void *allocate_and_wait(void *unused) {
  (void)unused;
  hak_free(hak_malloc(100));
  pthread_barrier_wait(&allocated);
  pthread_barrier_wait(&looked);
  return NULL;
}

static void heaps_follow_threads(void **state) {
  (void)state;
  enum { THREADS = 5 };
  pthread_t threads[THREADS];
  hak_free(hak_malloc(1));
  struct hak_stats before = get();
  assert_true(before.heaps_active >= 1);
  assert_int_equal(pthread_barrier_init(&allocated, NULL, THREADS + 1), 0);
  assert_int_equal(pthread_barrier_init(&looked, NULL, THREADS + 1), 0);
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, allocate_and_wait, NULL), 0);
  pthread_barrier_wait(&allocated);
  struct hak_stats during = get();
  pthread_barrier_wait(&looked);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  struct hak_stats after = get();
  assert_int_equal(during.heaps_active, before.heaps_active + THREADS);
  assert_int_equal(after.heaps_active, before.heaps_active);
  assert_int_equal(after.heaps_active + after.heaps_parked,
                   during.heaps_active + during.heaps_parked);
  assert_true(after.heaps_parked >= THREADS);
}

/* Threads one after the other use one heap, not one each. */
static void parked_heaps_are_used_again(void **state) {
  (void)state;
  struct hak_stats before = get();
  for (int i = 0; i < 50; i++) {
    pthread_t thread;
    assert_int_equal(pthread_barrier_init(&allocated, NULL, 1), 0);
    assert_int_equal(pthread_barrier_init(&looked, NULL, 1), 0);
    assert_int_equal(pthread_create(&thread, NULL, allocate_and_wait, NULL), 0);
    pthread_join(thread, NULL);
  }
  struct hak_stats after = get();
  assert_true(after.heaps_parked <= before.heaps_parked + 1);
}

static void version_and_variant_are_named(void **state) {
  (void)state;
  static const char *const variants[] = {"standard", "fast", "observe", "hardened",
                                         "check",    "asan", "tsan"};
  bool known = false;
  assert_string_equal(hak_version(), HAKMEM_VERSION_STRING);
  for (size_t i = 0; i < sizeof variants / sizeof variants[0]; i++)
    known = known || strcmp(hak_variant(), variants[i]) == 0;
  assert_true(known);
  assert_string_equal(hak_variant(), HAK_VARIANT_NAME);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(refuses_null_and_small_structs),
      cmocka_unit_test(leaves_fields_of_newer_versions_alone),
      cmocka_unit_test(fills_what_an_older_version_knows),
      cmocka_unit_test(memory_is_where_it_is_said_to_be),
      cmocka_unit_test(given_large_blocks_are_not_of_what_is_pinned),
      cmocka_unit_test(keeps_errno),
      cmocka_unit_test(huge_blocks_are_counted),
      cmocka_unit_test(who_holds_the_lock_does_not_wait_for_it),
      cmocka_unit_test(superslabs_come_and_go),
      cmocka_unit_test(everything_freed_leaves_no_superslab),
      cmocka_unit_test(heaps_follow_threads),
      cmocka_unit_test(parked_heaps_are_used_again),
      cmocka_unit_test(version_and_variant_are_named),
  };
  return cmocka_run_group_tests_name("stats", tests, NULL, NULL);
}
