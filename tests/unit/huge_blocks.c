/* huge_blocks.c - blocks of whole units: they keep their bytes when they grow, shrink and move; and a second free
 * of a Huge or Large block is told. */
#include "superslab/map.h"
#include "superslab_figures.h"

#include <sys/mman.h>

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
      cmocka_unit_test(the_second_free_is_told),
      cmocka_unit_test(huge_blocks_of_any_alignment),
  };
  return cmocka_run_group_tests_name("huge blocks", tests, start, NULL);
}
