/* allocation.c - malloc, calloc, free, free_sized, free_aligned_sized: every tier and every edge. */
#include "api_test.h"

#include <errno.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

static void malloc_of_every_size_is_aligned_and_writable(void **state) {
  (void)state;
  for (int i = 0; i < TEST_SIZE_COUNT; i++) {
    size_t size = test_sizes[i];
    unsigned char *p = malloc(opaque_size(size));
    assert_non_null(p);
    assert_true(is_aligned(p, 16));
    size_t usable = malloc_usable_size(p);
    assert_true(usable >= size);
    fill_block(p, usable, size);
    assert_true(block_is_filled(p, usable, size));
    free(p);
  }
}

/* A usable size that says too much shows as a neighbour's damaged pattern. */
static void usable_bytes_of_neighbours_do_not_overlap(void **state) {
  (void)state;
  enum { BLOCKS = 300 };
  static unsigned char *blocks[BLOCKS];
  for (int i = 0; i < TEST_SIZE_COUNT; i++) {
    size_t size = test_sizes[i];
    int count = size <= 64 * KIB ? BLOCKS : 6;
    for (int k = 0; k < count; k++) {
      blocks[k] = malloc(opaque_size(size));
      assert_non_null(blocks[k]);
      fill_block(blocks[k], malloc_usable_size(blocks[k]), (uint64_t)k);
    }
    for (int k = 0; k < count; k++) {
      assert_true(block_is_filled(blocks[k], malloc_usable_size(blocks[k]), (uint64_t)k));
      free(blocks[k]);
    }
  }
}

static void malloc_zero_gives_unique_blocks(void **state) {
  (void)state;
  enum { BLOCKS = 1000 };
  static void *blocks[BLOCKS];
  for (int i = 0; i < BLOCKS; i++) {
    blocks[i] = malloc(opaque_size(0));
    assert_non_null(blocks[i]);
    assert_true(is_aligned(blocks[i], 16));
    for (int k = i > 20 ? i - 20 : 0; k < i; k++) assert_ptr_not_equal(blocks[i], blocks[k]);
  }
  for (int i = 0; i < BLOCKS; i++) free(blocks[i]);
}

static void malloc_of_impossible_sizes_fails_with_enomem(void **state) {
  (void)state;
  for (int i = 0; i < IMPOSSIBLE_COUNT; i++) {
    errno = 0;
    assert_null(opaque(malloc(opaque_size(impossible_sizes[i]))));
    assert_int_equal(errno, ENOMEM);
    errno = 0;
    assert_null(opaque(calloc(1, opaque_size(impossible_sizes[i]))));
    assert_int_equal(errno, ENOMEM);
    errno = 0;
    assert_null(opaque(calloc(opaque_size(impossible_sizes[i]), 1)));
    assert_int_equal(errno, ENOMEM);
  }
  /* Allowed by the standard, but more than the address space holds. */
  errno = 0;
  assert_null(opaque(malloc(opaque_size(PTRDIFF_MAX))));
  assert_int_equal(errno, ENOMEM);
  void *p = malloc(100);
  assert_non_null(p);
  free(p);
}

static void calloc_with_a_zero_gives_a_block(void **state) {
  (void)state;
  void *a = calloc(opaque_size(0), 16);
  void *b = calloc(16, opaque_size(0));
  void *c = calloc(opaque_size(0), opaque_size(SIZE_MAX));
  void *d = calloc(opaque_size(SIZE_MAX), opaque_size(0));
  assert_non_null(a);
  assert_non_null(b);
  assert_non_null(c);
  assert_non_null(d);
  assert_ptr_not_equal(a, b);
  free(a);
  free(b);
  free(c);
  free(d);
}

static void calloc_overflow_fails_with_enomem(void **state) {
  (void)state;
  static const size_t factors[][2] = {
      {SIZE_MAX, 2},
      {2, SIZE_MAX},
      {SIZE_MAX, SIZE_MAX},
      {SIZE_MAX / 2 + 1, 2},
      {(size_t)1 << 32, (size_t)1 << 32},
      {((size_t)1 << 32) + 1, (size_t)1 << 32}, /* wraps to 4 GiB */
      {SIZE_MAX / 16 + 2, 16},                  /* wraps to 16 */
      {3, SIZE_MAX / 3 + 1},
  };
  for (size_t i = 0; i < sizeof factors / sizeof factors[0]; i++) {
    errno = 0;
    assert_null(opaque(calloc(opaque_size(factors[i][0]), opaque_size(factors[i][1]))));
    assert_int_equal(errno, ENOMEM);
  }
}

static void calloc_is_zeroed_when_fresh(void **state) {
  (void)state;
  for (int i = 0; i < TEST_SIZE_COUNT; i++) {
    unsigned char *p = calloc(1, opaque_size(test_sizes[i]));
    assert_non_null(p);
    assert_true(is_aligned(p, 16));
    assert_true(block_is_zero(p, test_sizes[i]));
    free(p);
  }
}

/* Blocks come back dirty from caches, slabs and spans; calloc has to know which. */
static void calloc_is_zeroed_after_dirty_reuse(void **state) {
  (void)state;
  enum { BLOCKS = 40 };
  unsigned char *blocks[BLOCKS];
  for (int i = 0; i < TEST_SIZE_COUNT; i++) {
    size_t size = test_sizes[i];
    int count = size <= 64 * KIB ? BLOCKS : 3;
    for (int round = 0; round < 3; round++) {
      for (int k = 0; k < count; k++) {
        blocks[k] = malloc(opaque_size(size));
        assert_non_null(blocks[k]);
        memset(blocks[k], 0xff, malloc_usable_size(blocks[k]));
      }
      for (int k = 0; k < count; k++) free(blocks[k]);
      if (round == 2) malloc_trim(0);
      for (int k = 0; k < count; k++) {
        blocks[k] = calloc(1, opaque_size(size));
        assert_non_null(blocks[k]);
        assert_true(block_is_zero(blocks[k], size));
        memset(blocks[k], 0xff, malloc_usable_size(blocks[k]));
      }
      for (int k = 0; k < count; k++) free(blocks[k]);
    }
  }
}

/* A slab or span that changes its size class takes the dirt of the old one with it. */
static void calloc_is_zeroed_after_reuse_by_another_size(void **state) {
  (void)state;
  static const size_t sizes[] = {48, 3000, 30000, 200000, 900000, 3000000};
  enum { SIZES = sizeof sizes / sizeof sizes[0], BYTES = 8 * 1024 * 1024 };
  static unsigned char *blocks[BYTES / 48 + 1];
  for (int dirty = 0; dirty < SIZES; dirty++)
    for (int clean = 0; clean < SIZES; clean++) {
      int count = (int)(BYTES / sizes[dirty]);
      for (int k = 0; k < count; k++) {
        blocks[k] = malloc(sizes[dirty]);
        assert_non_null(blocks[k]);
        memset(blocks[k], 0xa5, sizes[dirty]);
      }
      for (int k = 0; k < count; k++) free(blocks[k]);
      count = (int)(BYTES / sizes[clean]);
      for (int k = 0; k < count; k++) {
        blocks[k] = calloc(sizes[clean] / 4, 4);
        assert_non_null(blocks[k]);
        assert_true(block_is_zero(blocks[k], sizes[clean]));
      }
      for (int k = 0; k < count; k++) free(blocks[k]);
    }
}

static void free_of_null_does_nothing(void **state) {
  (void)state;
  errno = 1234;
  free(opaque(NULL));
  if (free_sized != NULL) free_sized(opaque(NULL), 100);
  if (free_aligned_sized != NULL) free_aligned_sized(opaque(NULL), 64, 128);
  assert_int_equal(errno, 1234);
}

/* Many blocks, so that the slow paths of free are taken as well. */
static void free_keeps_errno(void **state) {
  (void)state;
  enum { BLOCKS = 2000 };
  static void *blocks[BLOCKS];
  for (int tier = 0; tier < TIER_COUNT; tier++) {
    int count = tier < 2 ? BLOCKS : 50;
    for (int i = 0; i < count; i++) {
      blocks[i] = malloc(tier_sizes[tier]);
      assert_non_null(blocks[i]);
    }
    for (int i = 0; i < count; i++) {
      errno = 1234;
      free(blocks[i]);
      assert_int_equal(errno, 1234);
    }
  }
}

static void free_sized_takes_every_block(void **state) {
  (void)state;
  if (free_sized == NULL || free_aligned_sized == NULL) {
    assert_false(expects("hakmem"));
    print_message("skipped: this libc has no free_sized\n");
    skip();
  }
  for (int i = 0; i < TEST_SIZE_COUNT; i++) {
    size_t size = test_sizes[i];
    void *fresh = malloc(size);
    void *zeroed = calloc(1, size);
    void *grown = realloc(malloc(1), size);
    void *aligned = aligned_alloc(256, size);
    void *ordinary = aligned_alloc(16, size);
    assert_true(fresh && zeroed && grown && aligned && ordinary);
    errno = 1234;
    free_sized(fresh, size);
    free_sized(zeroed, size);
    free_sized(grown, size);
    free_aligned_sized(aligned, 256, size);
    free_aligned_sized(ordinary, 16, size);
    assert_int_equal(errno, 1234);
  }
  free_sized(malloc(opaque_size(0)), 0);
}

/* If the sized frees dropped their blocks, a million of them would show. */
static void free_sized_gives_the_memory_back(void **state) {
  (void)state;
  if (free_sized == NULL || free_aligned_sized == NULL) {
    assert_false(expects("hakmem"));
    print_message("skipped: this libc has no free_sized\n");
    skip();
  }
  for (int tier = 0; tier < TIER_COUNT; tier++) {
    int rounds = tier == 0 ? 2000000 : 20000;
    size_t before = 0;
    for (int i = 0; i < rounds; i++) {
      if (i == 100) before = address_space_used();
      free_sized(opaque(malloc(tier_sizes[tier])), tier_sizes[tier]);
      free_aligned_sized(opaque(aligned_alloc(128, tier_sizes[tier])), 128, tier_sizes[tier]);
    }
    assert_true(address_space_used() <= before + 64 * MIB);
  }
}

static void usable_size_of_null_is_zero(void **state) {
  (void)state;
  assert_int_equal(malloc_usable_size(opaque(NULL)), 0);
}

static void strdup_and_kin_use_the_allocator(void **state) {
  (void)state;
  char *copy = strdup("written by libc itself");
  char *line = NULL;
  size_t capacity = 0;
  assert_non_null(copy);
  assert_string_equal(copy, "written by libc itself");
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  assert_int_equal(write(ends[1], "one line\n", 9), 9);
  close(ends[1]);
  FILE *in = fdopen(ends[0], "r");
  assert_non_null(in);
  assert_int_equal(getline(&line, &capacity, in), 9);
  assert_string_equal(line, "one line\n");
  if (expects("hakmem")) {
    assert_true(hak_owns(copy));
    assert_true(hak_owns(line));
  }
  free(copy);
  free(line);
  fclose(in);
}

int main(void) {
  require_expected_allocator();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(malloc_of_every_size_is_aligned_and_writable),
      cmocka_unit_test(usable_bytes_of_neighbours_do_not_overlap),
      cmocka_unit_test(malloc_zero_gives_unique_blocks),
      cmocka_unit_test(malloc_of_impossible_sizes_fails_with_enomem),
      cmocka_unit_test(calloc_with_a_zero_gives_a_block),
      cmocka_unit_test(calloc_overflow_fails_with_enomem),
      cmocka_unit_test(calloc_is_zeroed_when_fresh),
      cmocka_unit_test(calloc_is_zeroed_after_dirty_reuse),
      cmocka_unit_test(calloc_is_zeroed_after_reuse_by_another_size),
      cmocka_unit_test(free_of_null_does_nothing),
      cmocka_unit_test(free_keeps_errno),
      cmocka_unit_test(free_sized_takes_every_block),
      cmocka_unit_test(free_sized_gives_the_memory_back),
      cmocka_unit_test(usable_size_of_null_is_zero),
      cmocka_unit_test(strdup_and_kin_use_the_allocator),
  };
  return cmocka_run_group_tests_name("allocation", tests, NULL, NULL);
}
