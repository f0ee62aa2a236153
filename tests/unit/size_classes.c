/* size_classes.c - slab/size_class.h and the table of bins that is made from it. */
#include "unit_test.h"

#include "front/fast.h"
#include "slab/holes.h"
#include "slab/size_class.h"

static void classes_rise_in_steps_of_sixteen(void **state) {
  (void)state;
  assert_int_equal(class_size(0), 16);
  assert_int_equal(class_size(CLASS_COUNT - 1), SMALL_MAX);
  for (unsigned c = 0; c < CLASS_COUNT; c++) {
    assert_int_equal(class_size(c) % BLOCK_ALIGNMENT, 0);
    if (c > 0) assert_true(class_size(c) > class_size(c - 1));
  }
}

static void every_request_gets_the_smallest_class_that_holds_it(void **state) {
  (void)state;
  unsigned expected = 0;
  for (size_t size = 0; size <= SMALL_MAX; size++) {
    while (class_size(expected) < size) expected++;
    assert_int_equal(class_for(size), expected);
  }
}

/* From 16 KiB on, and below the step to 4096, at most a fifth: a class is at most 5/4 of the one below. */
static void an_eighth_of_a_block_is_lost_or_a_fifth(void **state) {
  (void)state;
  for (size_t size = 129; size <= SMALL_MAX; size++) {
    size_t block = class_size(class_for(size)), lost = block - size;
    assert_true(block == 4096 || block > 16 * KIB ? lost * 64 <= block * 13 : lost * 8 <= block);
  }
}

/* Above 1 KiB a class is a part of its slab, but for what its step rounds off. */
static void slabs_hold_several_blocks_and_lose_little(void **state) {
  (void)state;
  for (unsigned c = 0; c < CLASS_COUNT; c++) {
    size_t bytes = (size_t)class_slices(c) << SLICE_SHIFT;
    size_t blocks = bytes / class_size(c), lost = bytes - blocks * class_size(c);
    assert_true(class_slices(c) >= 1 && class_slices(c) <= SLAB_SLICES_MOST);
    assert_true(blocks >= 4);
    assert_true(blocks <= UINT16_MAX);
    assert_true(lost * 200 <= bytes * (class_size(c) > 4 * KIB ? 2 : 5));
  }
}

/* What is asked for most often beside powers of two: a power of two and a header. Each such class
 * fills its slab with one block fewer. */
static void a_power_of_two_and_a_header_have_a_class_of_their_own(void **state) {
  (void)state;
  enum { HEADER = 48, PAGE_HEADER = 272 /* of an SQLite page */ };
  for (size_t size = 2 * KIB; size < SMALL_MAX; size *= 2) {
    assert_int_equal(class_size(class_for(size)), size);
    size_t slab = (size_t)class_slices(class_for(size + HEADER)) << SLICE_SHIFT;
    assert_int_equal(slab / class_size(class_for(size + HEADER)), slab / size - 1);
  }
  assert_int_equal(SLICE_BYTES / class_size(class_for(4 * KIB + PAGE_HEADER)), 15);
}

/* Structures that are aligned to a cache line are rounded up as little as others. */
static void up_to_4_kib_a_class_is_whole_cache_lines(void **state) {
  (void)state;
  for (size_t size = 513; size <= 4 * KIB; size++)
    assert_int_equal(class_for_aligned(size, 64), class_for(size));
}

static void the_smallest_aligned_class_is_found(void **state) {
  (void)state;
  for (size_t alignment = 1; alignment <= SMALL_MAX; alignment *= 2)
    /* Every multiple of 16 and what follows it: nothing changes in between. */
    for (size_t step = 0; step < 2 * SMALL_MAX / 16; step++) {
      size_t size = step / 2 * 16 + step % 2;
      unsigned c = class_for_aligned(size, alignment);
      assert_true(c < CLASS_COUNT);
      assert_true(class_size(c) >= size);
      assert_int_equal(class_size(c) % alignment, 0);
      for (unsigned smaller = class_for(size); smaller < c; smaller++)
        assert_int_not_equal(class_size(smaller) % alignment, 0);
    }
  assert_int_equal(class_for_aligned(SMALL_MAX + 1, 16), CLASS_COUNT);
  assert_int_equal(class_for_aligned(16, SMALL_MAX * 2), CLASS_COUNT);
}

static void the_table_of_bins_agrees_with_class_for(void **state) {
  (void)state;
  for (size_t size = 1; size <= TABLE_MAX; size++)
    assert_int_equal(class_place_for(size), CLASS_FOR(size) * sizeof(struct bin));
  assert_int_equal(class_place_for(0), PLACE_OF_0);
  assert_int_equal(class_for(0), 0);
  for (size_t size = TABLE_MAX + 1; size <= SMALL_MAX; size++)
    assert_int_equal(class_for_mid(size), class_for(size));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(classes_rise_in_steps_of_sixteen),
      cmocka_unit_test(every_request_gets_the_smallest_class_that_holds_it),
      cmocka_unit_test(an_eighth_of_a_block_is_lost_or_a_fifth),
      cmocka_unit_test(slabs_hold_several_blocks_and_lose_little),
      cmocka_unit_test(a_power_of_two_and_a_header_have_a_class_of_their_own),
      cmocka_unit_test(up_to_4_kib_a_class_is_whole_cache_lines),
      cmocka_unit_test(the_smallest_aligned_class_is_found),
      cmocka_unit_test(the_table_of_bins_agrees_with_class_for),
  };
  return cmocka_run_group_tests_name("size classes", tests, NULL, NULL);
}
