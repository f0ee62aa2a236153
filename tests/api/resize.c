/* resize.c - realloc and reallocarray: contents, tiers, in place, failure. */
#include "api_test.h"

#include <errno.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

/* fill_block writes whole words; a cut inside a word keeps the bytes before the cut. */
static void realloc_between_any_two_sizes_keeps_contents(void **state) {
  (void)state;
  for (int from = 0; from < TEST_SIZE_COUNT; from++)
    for (int to = 0; to < TEST_SIZE_COUNT; to++) {
      size_t old_size = test_sizes[from], new_size = test_sizes[to];
      if (old_size > MIB && new_size > MIB && (from + to) % 3 != 0) continue;
      unsigned char *p = malloc(opaque_size(old_size));
      assert_non_null(p);
      fill_block(p, old_size, old_size);
      p = realloc(p, opaque_size(new_size));
      assert_non_null(p);
      assert_true(is_aligned(p, 16));
      assert_true(malloc_usable_size(p) >= new_size);
      assert_true(block_is_filled(p, smaller(old_size, new_size), old_size));
      fill_block(p, malloc_usable_size(p), new_size);
      free(p);
    }
}

static void one_block_walks_up_and_down_all_sizes(void **state) {
  (void)state;
  size_t size = 1;
  unsigned char *p = malloc(size);
  unsigned char *neighbour = malloc(size);
  assert_non_null(p);
  fill_block(p, size, 7);
  fill_block(neighbour, size, 8);
  for (int turn = 0; turn < 2; turn++) {
    for (; size < 40 * MIB; size += size / 3 + 1) {
      size_t next = size + size / 3 + 1;
      p = realloc(p, next);
      assert_non_null(p);
      assert_true(block_is_filled(p, size, 7));
      fill_block(p, next, 7);
    }
    for (; size > 3; size -= size / 4 + 1) {
      size_t next = size - (size / 4 + 1);
      p = realloc(p, next);
      assert_non_null(p);
      assert_true(block_is_filled(p, next, 7));
    }
    fill_block(p, size, 7);
  }
  assert_true(block_is_filled(neighbour, 1, 8));
  free(p);
  free(neighbour);
}

/* Small steps: what a growing buffer of a naive program does. */
static void growth_in_small_steps_keeps_contents(void **state) {
  (void)state;
  size_t size = 0;
  unsigned char *p = NULL;
  for (int i = 0; i < 2000; i++) {
    p = realloc(p, size + 4096);
    assert_non_null(p);
    fill_block(p + size, 4096, (uint64_t)i);
    size += 4096;
  }
  for (int i = 0; i < 2000; i++)
    assert_true(block_is_filled(p + 4096 * (size_t)i, 4096, (uint64_t)i));
  free(p);
}

static void realloc_within_the_usable_size_stays_in_place(void **state) {
  (void)state;
  for (int i = 0; i < TEST_SIZE_COUNT; i++) {
    unsigned char *p = malloc(opaque_size(test_sizes[i]));
    assert_non_null(p);
    size_t usable = malloc_usable_size(p);
    fill_block(p, usable, 3);
    unsigned char *q = realloc(p, opaque_size(usable));
    assert_ptr_equal(q, p);
    q = realloc(q, opaque_size(test_sizes[i]));
    assert_ptr_equal(q, p);
    assert_true(block_is_filled(q, test_sizes[i], 3));
    free(q);
  }
}

static void realloc_of_null_allocates(void **state) {
  (void)state;
  for (int i = 0; i < TEST_SIZE_COUNT; i++) {
    unsigned char *p = realloc(opaque(NULL), opaque_size(test_sizes[i]));
    assert_non_null(p);
    assert_true(malloc_usable_size(p) >= test_sizes[i]);
    fill_block(p, test_sizes[i], 1);
    free(p);
  }
  void *a = realloc(opaque(NULL), opaque_size(0));
  void *b = realloc(opaque(NULL), opaque_size(0));
  assert_non_null(a);
  assert_non_null(b);
  assert_ptr_not_equal(a, b);
  free(a);
  free(b);
}

/* As glibc: the block is gone, NULL comes back, and that is no error. */
static void realloc_to_zero_frees(void **state) {
  (void)state;
  for (int tier = 0; tier < TIER_COUNT; tier++) {
    int rounds = tier == 0 ? 1000000 : 5000;
    size_t before = 0;
    for (int i = 0; i < rounds; i++) {
      if (i == 100) before = address_space_used();
      unsigned char *p = malloc(tier_sizes[tier]);
      assert_non_null(p);
      p[0] = 1;
      errno = 1234;
      assert_null(opaque(realloc(opaque(p), opaque_size(0))));
      assert_int_equal(errno, 1234);
      p = malloc(tier_sizes[tier]);
      assert_non_null(p);
      assert_null(opaque(reallocarray(opaque(p), opaque_size(0), 8)));
      p = malloc(tier_sizes[tier]);
      assert_non_null(p);
      assert_null(opaque(reallocarray(opaque(p), 8, opaque_size(0))));
    }
    assert_true(address_space_used() <= before + 64 * MIB);
  }
}

static void failed_realloc_leaves_the_block_alone(void **state) {
  (void)state;
  for (int tier = 0; tier < TIER_COUNT; tier++)
    for (int i = 0; i < IMPOSSIBLE_COUNT; i++) {
      unsigned char *p = malloc(tier_sizes[tier]);
      assert_non_null(p);
      fill_block(p, tier_sizes[tier], 9);
      errno = 0;
      assert_null(opaque(realloc(opaque(p), opaque_size(impossible_sizes[i]))));
      assert_int_equal(errno, ENOMEM);
      assert_true(block_is_filled(p, tier_sizes[tier], 9));
      errno = 0;
      assert_null(opaque(reallocarray(opaque(p), opaque_size(impossible_sizes[i]), 1)));
      assert_int_equal(errno, ENOMEM);
      assert_true(block_is_filled(p, tier_sizes[tier], 9));
      free(p);
    }
  errno = 0;
  assert_null(opaque(realloc(opaque(NULL), opaque_size(SIZE_MAX))));
  assert_int_equal(errno, ENOMEM);
}

static void reallocarray_overflow_leaves_the_block_alone(void **state) {
  (void)state;
  static const size_t factors[][2] = {
      {SIZE_MAX, 2},           {2, SIZE_MAX},
      {SIZE_MAX / 2 + 1, 2},   {(size_t)1 << 32, (size_t)1 << 32},
      {SIZE_MAX / 16 + 2, 16}, /* wraps to 16 */
  };
  for (size_t i = 0; i < sizeof factors / sizeof factors[0]; i++) {
    unsigned char *p = malloc(200);
    assert_non_null(p);
    fill_block(p, 200, 5);
    errno = 0;
    assert_null(
        opaque(reallocarray(opaque(p), opaque_size(factors[i][0]), opaque_size(factors[i][1]))));
    assert_int_equal(errno, ENOMEM);
    assert_true(block_is_filled(p, 200, 5));
    free(p);
  }
}

static void reallocarray_resizes(void **state) {
  (void)state;
  unsigned char *p = reallocarray(opaque(NULL), 10, 24);
  assert_non_null(p);
  fill_block(p, 240, 2);
  p = reallocarray(p, 1000, 24);
  assert_non_null(p);
  assert_true(malloc_usable_size(p) >= 24000);
  assert_true(block_is_filled(p, 240, 2));
  p = reallocarray(p, 100000, 24);
  assert_non_null(p);
  assert_true(block_is_filled(p, 240, 2));
  p = reallocarray(p, 1, 24);
  assert_non_null(p);
  assert_true(block_is_filled(p, 24, 2));
  free(p);
}

/* Memory of a huge block that shrank and grew again may be old; it must not be somebody else's. */
static void shrinking_gives_memory_back(void **state) {
  (void)state;
  size_t size = 256 * MIB;
  unsigned char *p = malloc(size);
  assert_non_null(p);
  for (size_t i = 0; i < size; i += 4096) p[i] = 1;
  fill_block(p, 4096, 4);
  size_t before = resident_bytes();
  p = realloc(p, 4 * MIB);
  assert_non_null(p);
  assert_true(block_is_filled(p, 4096, 4));
  malloc_trim(0);
  assert_true(resident_bytes() <= before - 200 * MIB);
  p = realloc(p, 64 * MIB);
  assert_non_null(p);
  assert_true(block_is_filled(p, 4096, 4));
  free(p);
}

static void blocks_beside_a_resized_one_are_untouched(void **state) {
  (void)state;
  enum { BLOCKS = 64 };
  unsigned char *blocks[BLOCKS];
  size_t sizes[BLOCKS];
  uint32_t random = 12345;
  for (int i = 0; i < BLOCKS; i++) {
    sizes[i] = 200 * KIB;
    blocks[i] = malloc(sizes[i]);
    assert_non_null(blocks[i]);
    fill_block(blocks[i], sizes[i], (uint64_t)i);
  }
  for (int round = 0; round < 2000; round++) {
    random = random * 1664525u + 1013904223u;
    int i = (int)(random >> 26);
    random = random * 1664525u + 1013904223u;
    size_t next = 1 + (random >> 12) % (900 * KIB);
    blocks[i] = realloc(blocks[i], next);
    assert_non_null(blocks[i]);
    assert_true(block_is_filled(blocks[i], smaller(sizes[i], next), (uint64_t)i));
    fill_block(blocks[i], next, (uint64_t)i);
    sizes[i] = next;
    int other = (i + 1) % BLOCKS;
    assert_true(block_is_filled(blocks[other], sizes[other], (uint64_t)other));
  }
  for (int i = 0; i < BLOCKS; i++) {
    assert_true(block_is_filled(blocks[i], sizes[i], (uint64_t)i));
    free(blocks[i]);
  }
}

int main(void) {
  require_expected_allocator();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(realloc_between_any_two_sizes_keeps_contents),
      cmocka_unit_test(one_block_walks_up_and_down_all_sizes),
      cmocka_unit_test(growth_in_small_steps_keeps_contents),
      cmocka_unit_test(realloc_within_the_usable_size_stays_in_place),
      cmocka_unit_test(realloc_of_null_allocates),
      cmocka_unit_test(realloc_to_zero_frees),
      cmocka_unit_test(failed_realloc_leaves_the_block_alone),
      cmocka_unit_test(reallocarray_overflow_leaves_the_block_alone),
      cmocka_unit_test(reallocarray_resizes),
      cmocka_unit_test(shrinking_gives_memory_back),
      cmocka_unit_test(blocks_beside_a_resized_one_are_untouched),
  };
  return cmocka_run_group_tests_name("resize", tests, NULL, NULL);
}
