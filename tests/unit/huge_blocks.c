/* huge_blocks.c - blocks of whole units: they keep their bytes when they grow, shrink and move; and a second free
 * of a Huge or Large block is told. */
#include "superslab/map.h"
#include "superslab_figures.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include "large/large.h"
#include "observe/counters.h"
#include "policy/options.h"

WITHOUT_SAMPLES;

static int start(void **state) {
  (void)state;
  options_at_start();
  return 0;
}

static void huge_blocks_keep_their_bytes_when_resized(void **state) {
  (void)state;
  uint64_t random = 31;
  struct superslab_stats before = span_figures();
  uint64_t mapped = unit_figures().bytes_mapped - unit_figures().units_warm * UNIT_BYTES;
  for (int round = 0; round < 5 * EFFORT; round++) {
    bool zeroed = false;
    size_t bytes = MIB + random_below(&random, 12 * MIB);
    size_t alignment = UNIT_BYTES << random_below(&random, 4);
    struct superslab *huge = huge_acquire(bytes, alignment, &zeroed);
    assert_non_null(huge);
    assert_true(is_aligned(huge->base, alignment));
    assert_true(huge->huge_usable >= bytes);
    assert_true(huge->huge_usable <= (size_t)huge->huge_units << UNIT_SHIFT);
    assert_ptr_equal(map_superslab(huge->base), huge);
    if (zeroed) assert_true(block_is_zero(huge->base, bytes));
    fill_block(huge->base, bytes, (uint64_t)round);
    for (int step = 0; step < 6; step++) {
      size_t next = MIB + random_below(&random, 24 * MIB);
      struct superslab *resized = huge_resize(huge, huge->base, next);
      if (resized == NULL) { /* not possible in place or by moving: as it was */
        assert_true(next > bytes);
        assert_true(block_is_filled(huge->base, bytes, (uint64_t)round));
        continue;
      }
      huge = resized;
      assert_ptr_equal(map_superslab(huge->base), huge);
      assert_true(huge->huge_usable >= next);
      assert_true(huge->huge_usable <= (size_t)huge->huge_units << UNIT_SHIFT);
      assert_true(block_is_filled(huge->base, bytes < next ? bytes : next, (uint64_t)round));
      bytes = next;
      fill_block(huge->base, bytes, (uint64_t)round);
    }
    char *base = huge->base;
    size_t units = huge->huge_units;
    for (size_t u = 0; u < units; u++)
      assert_ptr_equal(map_superslab(base + (u << UNIT_SHIFT)), huge);
    assert_int_equal(span_figures().huge_live, before.huge_live + 1);
    assert_true(huge_release(huge, huge->base));
    for (size_t u = 0; u < units; u++) assert_null(map_superslab(base + (u << UNIT_SHIFT)));
  }
  struct superslab_stats after = span_figures();
  assert_int_equal(after.huge_live, before.huge_live);
  assert_int_equal(after.huge_bytes, before.huge_bytes);
  assert_int_equal(unit_figures().bytes_mapped - unit_figures().units_warm * UNIT_BYTES, mapped);
}

/* The pages move: nothing is copied, so nothing is left for the warm pool. */
static void huge_blocks_move_when_they_cannot_grow_in_place(void **state) {
  (void)state;
  static const size_t sizes[] = {3 * MIB, 5 * MIB + 1, 8 * MIB, 20 * MIB - 5};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    bool zeroed;
    unit_trim();
    struct superslab *huge = huge_acquire(sizes[i], UNIT_BYTES, &zeroed);
    assert_non_null(huge);
    char *base = huge->base, *end = base + ((size_t)huge->huge_units << UNIT_SHIFT);
    fill_block(base, sizes[i], i);
    /* Fails when something else lies there already, which is as good. */
    void *blocker =
        mmap(end, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    struct superslab *moved = huge_resize(huge, huge->base, 2 * sizes[i]);
    assert_non_null(moved);
    assert_ptr_not_equal(moved->base, base);
    assert_null(map_superslab(base));
    assert_true(block_is_filled(moved->base, sizes[i], i));
    assert_int_equal(unit_figures().units_warm, 0);
    /* And once more, from what the first move made. */
    fill_block(moved->base, 2 * sizes[i], i);
    end = moved->base + ((size_t)moved->huge_units << UNIT_SHIFT);
    void *second =
        mmap(end, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    huge = huge_resize(moved, moved->base, 5 * sizes[i]);
    assert_non_null(huge);
    assert_true(block_is_filled(huge->base, 2 * sizes[i], i));
    assert_true(huge_release(huge, huge->base));
    if (blocker != MAP_FAILED) munmap(blocker, 4096);
    if (second != MAP_FAILED) munmap(second, 4096);
  }
}

/* --- what is unmapped ----------------------------------------------------------------------------------- */

static size_t in_pool, unmapped_from_pool, cuts;
static bool watches_pool, watches_cuts;

bool __real_os_unmap(void *address, size_t bytes);
bool __wrap_os_unmap(void *address, size_t bytes); /* the linker calls it so */
bool __wrap_os_unmap(void *address, size_t bytes) {
  if (watches_pool) {
    unit_pool_lock();
    assert_int_equal(unit_pool.units + (bytes >> UNIT_SHIFT), in_pool);
    in_pool = unit_pool.units;
    unit_pool_unlock();
    unmapped_from_pool++;
  }
  struct superslab *superslab = watches_cuts ? map_superslab((char *)address - 1) : NULL;
  if (superslab != NULL) {
    assert_int_not_equal(superslab->huge_cuts, 0);
    cuts++;
  }
  return __real_os_unmap(address, bytes);
}

/* A fork loses what is out of the pool and still mapped. */
static void the_pool_gives_back_one_run_at_a_time(void **state) {
  (void)state;
  enum { UNITS = 11 };
  struct unit_run runs[UNITS];
  unit_trim();
  for (int i = 0; i < UNITS; i++) assert_non_null((runs[i] = unit_acquire(1, UNIT_BYTES)).base);
  for (int i = 0; i < UNITS; i += 2) unit_release(runs[i].base, 1, false, runs[i].node);
  in_pool = unit_pool.units;
  assert_true(unit_pool.count > 1);
  watches_pool = true;
  unit_trim();
  watches_pool = false;
  assert_int_equal(in_pool, 0);
  assert_true(unmapped_from_pool > 1);
  for (int i = 1; i < UNITS; i += 2) unit_give_up(runs[i].base, 1, false);
}

/* Another thread may get the place at once, and have its copies there checked. */
static void a_cut_is_marked_before_it_is_made(void **state) {
  (void)state;
  struct rlimit before;
  bool zeroed;
  unit_trim();
  if (getrlimit(RLIMIT_AS, &before) != 0) abort();
  struct rlimit limit = {64 * GIB, before.rlim_max};
  bool had_none = before.rlim_cur > limit.rlim_cur;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  had_none = false; /* a sanitizer needs more */
#endif
  if (had_none && setrlimit(RLIMIT_AS, &limit) != 0) abort();
  bool limited = os_memory_is_limited(); /* an emulator may say no */
  watches_cuts = true;
  struct superslab *huge = huge_acquire(2 * MIB + 100 * KIB, UNIT_BYTES, &zeroed);
  watches_cuts = false;
  assert_non_null(huge);
  assert_int_equal(huge->huge_cuts != 0, limited);
  assert_int_equal(cuts > 0, limited);
  assert_true(huge_release(huge, huge->base));
  setrlimit(RLIMIT_AS, &before);
}

/* What it gave up lies behind it in the pool, and comes back from there: no page moves. (Under a limit of address space the kernel moves it,
 * so that it stays one mapping.) */
static void a_block_that_shrinks_and_grows_stays_where_it_is(void **state) {
  (void)state;
  enum { MOST = 64, LESS = 60 };
  bool zeroed, may_move = os_memory_is_limited();
  unit_trim();
  struct superslab *huge = huge_acquire(MOST * MIB, UNIT_BYTES, &zeroed);
  assert_non_null(huge);
  char *base = huge->base;
  uint64_t moves = atomic_load(&os_counts.mremap), mapped = unit_figures().bytes_mapped;
  fill_block(base, LESS * MIB, 5);
  for (int i = 0; i < 3; i++) {
    assert_ptr_equal(huge_resize(huge, huge->base, LESS * MIB), huge);
    assert_ptr_equal(huge_resize(huge, huge->base, MOST * MIB), huge);
    assert_true(may_move || huge->base == base);
    base = huge->base;
    base[MOST * MIB - 1] = 1;
    assert_ptr_equal(map_superslab(base + MOST * MIB - 1), huge);
  }
  assert_true(block_is_filled(base, LESS * MIB, 5));
  assert_true(may_move || atomic_load(&os_counts.mremap) == moves);
  assert_true(may_move || unit_figures().bytes_mapped == mapped);
  assert_true(huge_release(huge, base));
}

static void the_second_free_is_told(void **state) {
  (void)state;
  bool zeroed;
  struct superslab *huge = huge_acquire(3 * MIB, UNIT_BYTES, &zeroed);
  assert_non_null(huge);
  char *base = huge->base;
  assert_true(huge_release(huge, base));
  assert_false(huge_release(huge, base));
  struct span_cache cache = {0};
  struct slab *keeps_the_superslab = span_acquire(1, 1, KIND_LARGE, false, COUNTED_LARGE, &zeroed);
  void *cached = large_allocate(&cache, 200 * KIB, 16, &zeroed);
  void *direct = large_allocate(NULL, 300 * KIB, 16, &zeroed);
  assert_true(keeps_the_superslab != NULL && cached != NULL && direct != NULL);
  assert_true(large_free(&cache, map_slab(cached)));
  assert_false(large_free(&cache, map_slab(cached)));
  assert_true(large_free(NULL, map_slab(direct)));
  assert_false(large_free(NULL, map_slab(direct)));
  assert_int_equal(cache.count, 1);
  span_cache_flush(&cache);
  span_release(keeps_the_superslab);
}

static void huge_blocks_of_any_alignment(void **state) {
  (void)state;
  for (size_t alignment = 16; alignment <= 16 * GIB; alignment *= 2) {
    bool zeroed;
    struct superslab *huge = huge_acquire(3 * MIB, alignment, &zeroed);
    assert_non_null(huge);
    assert_true(is_aligned(huge->base, alignment));
    assert_true(huge_release(huge, huge->base));
  }
  bool zeroed;
  assert_null(huge_acquire(SIZE_MAX / 2, UNIT_BYTES, &zeroed));
  assert_null(huge_acquire(SIZE_MAX - UNIT_BYTES - 1, UNIT_BYTES, &zeroed));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(huge_blocks_keep_their_bytes_when_resized),
      cmocka_unit_test(huge_blocks_move_when_they_cannot_grow_in_place),
      cmocka_unit_test(the_pool_gives_back_one_run_at_a_time),
      cmocka_unit_test(a_cut_is_marked_before_it_is_made),
      cmocka_unit_test(a_block_that_shrinks_and_grows_stays_where_it_is),
      cmocka_unit_test(the_second_free_is_told),
      cmocka_unit_test(huge_blocks_of_any_alignment),
  };
  return cmocka_run_group_tests_name("huge blocks", tests, start, NULL);
}
