/* alignment.c - aligned_alloc, posix_memalign, memalign, valloc, pvalloc. */
#include "api_test.h"

#include <errno.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

enum { LARGEST_SHIFT = 34 }; /* 16 GiB */

static size_t page_size(void) { return (size_t)sysconf(_SC_PAGESIZE); }

/* The whole block is written; a huge alignment with a huge size would only cost time. */
static void check_aligned_block(void *p, size_t alignment, size_t size) {
  assert_non_null(p);
  assert_true(is_aligned(p, alignment));
  assert_true(is_aligned(p, 16) || alignment < 16);
  size_t usable = malloc_usable_size(p);
  assert_true(usable >= size);
  if (usable > 8 * MIB) usable = 8 * MIB;
  fill_block(p, usable, alignment + size);
  assert_true(block_is_filled(p, usable, alignment + size));
}

static void aligned_alloc_at_every_alignment_and_size(void **state) {
  (void)state;
  for (int shift = 0; shift <= LARGEST_SHIFT; shift++)
    for (int i = 0; i < TEST_SIZE_COUNT; i++) {
      if (shift > 21 && i % 8 != 0) continue;
      size_t alignment = (size_t)1 << shift;
      void *p = aligned_alloc(opaque_size(alignment), opaque_size(test_sizes[i]));
      check_aligned_block(p, alignment, test_sizes[i]);
      free(p);
    }
}

static void aligned_blocks_live_beside_each_other(void **state) {
  (void)state;
  enum { BLOCKS = 64 };
  void *blocks[BLOCKS];
  size_t usable[BLOCKS];
  for (int shift = 5; shift <= 22; shift++)
    for (int tier = 0; tier < 3; tier++) {
      for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = aligned_alloc((size_t)1 << shift, tier_sizes[tier] + (size_t)i);
        assert_non_null(blocks[i]);
        assert_true(is_aligned(blocks[i], (size_t)1 << shift));
        usable[i] = malloc_usable_size(blocks[i]);
        assert_true(usable[i] >= tier_sizes[tier] + (size_t)i);
        if (usable[i] > 512 * KIB) usable[i] = 512 * KIB;
        fill_block(blocks[i], usable[i], (uint64_t)i);
      }
      for (int i = 0; i < BLOCKS; i++) {
        assert_true(block_is_filled(blocks[i], usable[i], (uint64_t)i));
        free(blocks[i]);
      }
    }
}

static void posix_memalign_at_every_alignment_and_size(void **state) {
  (void)state;
  for (int shift = 3; shift <= LARGEST_SHIFT; shift++)
    for (int i = 0; i < TEST_SIZE_COUNT; i++) {
      if (shift > 21 && i % 8 != 0) continue;
      size_t alignment = (size_t)1 << shift;
      void *p = NULL;
      errno = 1234;
      assert_int_equal(posix_memalign(&p, opaque_size(alignment), opaque_size(test_sizes[i])), 0);
      assert_int_equal(errno, 1234);
      check_aligned_block(p, alignment, test_sizes[i]);
      free(p);
    }
}

static void posix_memalign_refuses_bad_alignments(void **state) {
  (void)state;
  static const size_t bad[] = {0,  1,  2,   4,    3,    7,        12,
                               24, 40, 100, 4095, 4097, SIZE_MAX, SIZE_MAX - 7};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    void *p = &p;
    errno = 1234;
    assert_int_equal(posix_memalign(&p, opaque_size(bad[i]), 100), EINVAL);
    assert_int_equal(errno, 1234);
    assert_ptr_equal(p, &p);
  }
}

static void posix_memalign_reports_enomem_without_touching_anything(void **state) {
  (void)state;
  static const size_t alignments[] = {8, 16, 64, 4096, 65536, 2 * MIB, GIB};
  for (size_t a = 0; a < sizeof alignments / sizeof alignments[0]; a++)
    for (int i = 0; i < IMPOSSIBLE_COUNT; i++) {
      void *p = &p;
      errno = 1234;
      assert_int_equal(posix_memalign(&p, alignments[a], opaque_size(impossible_sizes[i])), ENOMEM);
      assert_int_equal(errno, ENOMEM); /* programs read it, as glibc sets it */
      assert_ptr_equal(p, &p);
    }
}

static void aligned_alloc_of_impossible_sizes_fails_with_enomem(void **state) {
  (void)state;
  static const size_t alignments[] = {1, 8, 16, 64, 4096, 65536, 2 * MIB, GIB};
  for (size_t a = 0; a < sizeof alignments / sizeof alignments[0]; a++)
    for (int i = 0; i < IMPOSSIBLE_COUNT; i++) {
      errno = 0;
      assert_null(opaque(aligned_alloc(alignments[a], opaque_size(impossible_sizes[i]))));
      assert_int_equal(errno, ENOMEM);
      errno = 0;
      assert_null(opaque(memalign(alignments[a], opaque_size(impossible_sizes[i]))));
      assert_int_equal(errno, ENOMEM);
    }
}

static void aligned_alloc_refuses_bad_alignments(void **state) {
  (void)state;
  static const size_t bad[] = {0, 3, 12, 24, 40, 100, 4095, 4097, (size_t)3 << 40, SIZE_MAX};
  if (!expects("hakmem")) {
    print_message("skipped: glibc 2.36 rounds a bad alignment up instead\n");
    skip();
  }
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    errno = 0;
    assert_null(opaque(aligned_alloc(opaque_size(bad[i]), 100)));
    assert_int_equal(errno, EINVAL);
  }
}

/* 16 GiB is the documented end; beyond it a failure has to be a clean one. */
static void alignments_beyond_the_limit_fail_cleanly(void **state) {
  (void)state;
  if (!expects("hakmem")) {
    print_message("skipped: the limit is hakmem's own\n");
    skip();
  }
  for (int shift = LARGEST_SHIFT + 1; shift < 64; shift++) {
    size_t alignment = (size_t)1 << shift;
    void *p = &p;
    errno = 0;
    assert_null(opaque(aligned_alloc(opaque_size(alignment), 100)));
    assert_true(errno == EINVAL || errno == ENOMEM);
    int error = posix_memalign(&p, opaque_size(alignment), 100);
    assert_true(error == EINVAL || error == ENOMEM);
    assert_ptr_equal(p, &p);
    assert_null(opaque(memalign(opaque_size(alignment), 100)));
  }
}

/* glibc rounds a weird alignment up to a power of two, others refuse it; both are known to callers.
 * What must not happen is a block aligned less than asked for. */
static void memalign_with_weird_alignments(void **state) {
  (void)state;
  for (size_t alignment = 0; alignment < 5000; alignment += alignment < 200 ? 1 : 61) {
    errno = 0;
    unsigned char *p = memalign(opaque_size(alignment), 100);
    if (p == NULL) {
      assert_int_equal(errno, EINVAL);
      continue;
    }
    size_t at_least = 16;
    while (at_least < alignment) at_least *= 2;
    assert_true(is_aligned(p, at_least));
    fill_block(p, malloc_usable_size(p), alignment);
    free(p);
  }
  errno = 0;
  assert_null(opaque(memalign(opaque_size(SIZE_MAX), 100)));
  assert_true(errno == EINVAL || errno == ENOMEM);
}

static void memalign_at_every_power_of_two(void **state) {
  (void)state;
  for (int shift = 0; shift <= LARGEST_SHIFT; shift++)
    for (int tier = 0; tier < TIER_COUNT; tier++) {
      void *p = memalign((size_t)1 << shift, tier_sizes[tier]);
      check_aligned_block(p, (size_t)1 << shift, tier_sizes[tier]);
      free(p);
    }
}

static void zero_sized_aligned_blocks_are_unique(void **state) {
  (void)state;
  for (int shift = 3; shift <= LARGEST_SHIFT; shift++) {
    void *a = aligned_alloc((size_t)1 << shift, opaque_size(0));
    void *b = memalign((size_t)1 << shift, opaque_size(0));
    void *c = NULL;
    assert_int_equal(posix_memalign(&c, (size_t)1 << shift, opaque_size(0)), 0);
    assert_non_null(a);
    assert_non_null(b);
    assert_non_null(c);
    assert_true(a != b && b != c && a != c);
    assert_true(is_aligned(a, (size_t)1 << shift));
    assert_true(is_aligned(b, (size_t)1 << shift));
    assert_true(is_aligned(c, (size_t)1 << shift));
    free(a);
    free(b);
    free(c);
  }
}

static void valloc_and_pvalloc_give_pages(void **state) {
  (void)state;
  size_t page = page_size();
  for (int i = 0; i < TEST_SIZE_COUNT; i++) {
    size_t size = test_sizes[i];
    void *v = valloc(opaque_size(size));
    check_aligned_block(v, page, size);
    void *p = pvalloc(opaque_size(size));
    check_aligned_block(p, page, (size + page - 1) & ~(page - 1));
    free(v);
    free(p);
  }
  void *v = valloc(opaque_size(0));
  void *p = pvalloc(opaque_size(0));
  assert_non_null(v);
  assert_non_null(p);
  assert_ptr_not_equal(v, p);
  assert_true(is_aligned(v, page) && is_aligned(p, page));
  free(v);
  free(p);
  for (int i = 0; i < IMPOSSIBLE_COUNT; i++) {
    errno = 0;
    assert_null(opaque(valloc(opaque_size(impossible_sizes[i]))));
    assert_int_equal(errno, ENOMEM);
    errno = 0;
    assert_null(opaque(pvalloc(opaque_size(impossible_sizes[i]))));
    assert_int_equal(errno, ENOMEM);
  }
}

static void free_of_aligned_blocks_keeps_errno(void **state) {
  (void)state;
  for (int shift = 3; shift <= LARGEST_SHIFT; shift++)
    for (int tier = 0; tier < TIER_COUNT; tier++) {
      void *p = aligned_alloc((size_t)1 << shift, tier_sizes[tier]);
      assert_non_null(p);
      errno = 1234;
      free(p);
      assert_int_equal(errno, 1234);
    }
}

/* Each round could strand the slack around the block; ten thousand of them would show. */
static void aligned_blocks_leave_nothing_behind(void **state) {
  (void)state;
  static const int shifts[] = {6, 12, 16, 20, 21, 25, LARGEST_SHIFT};
  for (size_t s = 0; s < sizeof shifts / sizeof shifts[0]; s++)
    for (int tier = 0; tier < TIER_COUNT; tier++) {
      size_t before = 0;
      for (int i = 0; i < 3000; i++) {
        if (i == 20) before = address_space_used();
        free(opaque(aligned_alloc((size_t)1 << shifts[s], tier_sizes[tier])));
      }
      assert_true(address_space_used() <= before + 64 * MIB);
    }
}

static void realloc_of_aligned_blocks_keeps_contents(void **state) {
  (void)state;
  for (int shift = 4; shift <= 26; shift++)
    for (int from = 0; from < TIER_COUNT; from++)
      for (int to = 0; to < TIER_COUNT; to++) {
        void *p = aligned_alloc((size_t)1 << shift, tier_sizes[from]);
        assert_non_null(p);
        fill_block(p, tier_sizes[from], (uint64_t)shift);
        p = realloc(p, tier_sizes[to]);
        assert_non_null(p);
        assert_true(is_aligned(p, 16));
        assert_true(malloc_usable_size(p) >= tier_sizes[to]);
        size_t kept = tier_sizes[from] < tier_sizes[to] ? tier_sizes[from] : tier_sizes[to];
        assert_true(block_is_filled(p, kept, (uint64_t)shift));
        free(p);
      }
}

int main(void) {
  require_expected_allocator();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(aligned_alloc_at_every_alignment_and_size),
      cmocka_unit_test(aligned_blocks_live_beside_each_other),
      cmocka_unit_test(posix_memalign_at_every_alignment_and_size),
      cmocka_unit_test(posix_memalign_refuses_bad_alignments),
      cmocka_unit_test(posix_memalign_reports_enomem_without_touching_anything),
      cmocka_unit_test(aligned_alloc_of_impossible_sizes_fails_with_enomem),
      cmocka_unit_test(aligned_alloc_refuses_bad_alignments),
      cmocka_unit_test(alignments_beyond_the_limit_fail_cleanly),
      cmocka_unit_test(memalign_with_weird_alignments),
      cmocka_unit_test(memalign_at_every_power_of_two),
      cmocka_unit_test(zero_sized_aligned_blocks_are_unique),
      cmocka_unit_test(valloc_and_pvalloc_give_pages),
      cmocka_unit_test(free_of_aligned_blocks_keeps_errno),
      cmocka_unit_test(aligned_blocks_leave_nothing_behind),
      cmocka_unit_test(realloc_of_aligned_blocks_keeps_contents),
  };
  return cmocka_run_group_tests_name("alignment", tests, NULL, NULL);
}
