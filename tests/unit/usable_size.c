/* usable_size.c - the size classes as a program sees them, through hak_usable_size. */
#include "unit_test.h"

WITHOUT_SAMPLES;

static size_t usable_of(size_t size) {
  void *p = hak_malloc(size);
  assert_non_null(p);
  size_t usable = hak_usable_size(p);
  hak_free(p);
  return usable;
}

static void never_less_than_requested_and_never_falling(void **state) {
  (void)state;
  size_t before = 0;
  for (size_t size = 0; size <= 70000; size++) {
    size_t usable = usable_of(size);
    assert_true(usable >= size);
    assert_true(usable >= before);
    before = usable;
  }
  for (size_t size = 70000; size <= 9 * MIB; size += 4001) {
    size_t usable = usable_of(size);
    assert_true(usable >= size);
    assert_true(usable >= before);
    before = usable;
  }
}

/* Below the step to 4096, and above 16 KiB, a fifth (slab/size_class.h). */
static void at_most_an_eighth_is_lost(void **state) {
  (void)state;
  for (size_t size = 129; size <= 64 * KIB; size++) {
    size_t usable = usable_of(size);
    if (usable == 4096 || usable > 16 * KIB) assert_true((usable - size) * 64 <= usable * 13);
    else assert_true((usable - size) * 8 <= usable);
  }
  for (size_t size = 1; size <= 128; size++) assert_true(usable_of(size) - size < 16);
}

/* Large blocks are rounded to slices of 64 KiB, huge ones to pages. */
static void large_and_huge_blocks_lose_less_than_a_slice(void **state) {
  (void)state;
  for (size_t size = 65 * KIB; size <= 12 * MIB; size += 9973)
    assert_true(usable_of(size) - size < 64 * KIB);
}

static void the_usable_size_is_a_size_of_its_own(void **state) {
  (void)state;
  for (size_t size = 1; size <= 64 * KIB; size += size < 2048 ? 1 : 37) {
    size_t usable = usable_of(size);
    assert_int_equal(usable_of(usable), usable);
  }
}

/* A size that is a multiple of 2^k, asked for with that alignment. */
static void naturally_aligned(void **state) {
  (void)state;
  for (unsigned k = 4; k <= 12; k++) {
    size_t alignment = (size_t)1 << k;
    for (size_t size = alignment; size <= 48 * KIB; size += alignment) {
      void *p = hak_aligned_alloc(alignment, size);
      assert_non_null(p);
      assert_true(is_aligned(p, alignment));
      assert_true(hak_usable_size(p) >= size);
      hak_free(p);
    }
  }
}

static void blocks_of_one_size_are_aligned_to_what_divides_it(void **state) {
  (void)state;
  enum { BLOCKS = 100 };
  void *blocks[BLOCKS];
  for (unsigned k = 5; k <= 12; k++) {
    size_t alignment = (size_t)1 << k;
    for (size_t times = 1; times <= 5; times++) {
      for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = hak_aligned_alloc(alignment, alignment * times);
        assert_non_null(blocks[i]);
        assert_true(is_aligned(blocks[i], alignment));
      }
      for (int i = 0; i < BLOCKS; i++) hak_free(blocks[i]);
    }
  }
}

/* The usable size after a realloc from `before` bytes to `size`. */
static size_t usable_grown(size_t before, size_t size) {
  unsigned char *p = hak_malloc(before);
  assert_non_null(p);
  memset(p, 7, before);
  p = hak_realloc(p, size);
  assert_non_null(p);
  assert_int_equal(p[0], 7);
  assert_int_equal(p[before - 1], 7);
  size_t usable = hak_usable_size(p);
  hak_free(p);
  return usable;
}

static void a_block_that_goes_on_growing_gets_a_power_of_two(void **state) {
  (void)state;
  assert_int_equal(usable_grown(12 * KIB, 17 * KIB), 32 * KIB);
  assert_int_equal(usable_grown(16 * KIB, 32 * KIB), 32 * KIB);
  assert_int_equal(usable_grown(22 * KIB, 33 * KIB), 64 * KIB);
  assert_int_equal(usable_grown(56 * KIB, 60 * KIB), 64 * KIB);
  /* Not one that jumps, nor below and above. */
  assert_in_range(usable_grown(4 * KIB, 33 * KIB), 33 * KIB, 40 * KIB);
  assert_in_range(usable_grown(10 * KIB, 13 * KIB), 13 * KIB, 16 * KIB);
  assert_in_range(usable_grown(50 * KIB, 90 * KIB), 90 * KIB, 128 * KIB);
}

static void null_has_no_bytes(void **state) {
  (void)state;
  assert_int_equal(hak_usable_size(NULL), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(never_less_than_requested_and_never_falling),
      cmocka_unit_test(at_most_an_eighth_is_lost),
      cmocka_unit_test(large_and_huge_blocks_lose_less_than_a_slice),
      cmocka_unit_test(the_usable_size_is_a_size_of_its_own),
      cmocka_unit_test(naturally_aligned),
      cmocka_unit_test(blocks_of_one_size_are_aligned_to_what_divides_it),
      cmocka_unit_test(a_block_that_goes_on_growing_gets_a_power_of_two),
      cmocka_unit_test(null_has_no_bytes),
  };
  return cmocka_run_group_tests_name("usable size", tests, NULL, NULL);
}
