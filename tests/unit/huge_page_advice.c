/* huge_page_advice.c - what the kernel is told of huge pages: where they are wanted, and where one is broken up. */
#include "free_slices.h"
#include "many_mappings.h"
#include "smaps.h"

#include <stdio.h>
#include <string.h>

#include "observe/counters.h"
#include "policy/options.h"
#include "superslab/dense.h"
#include "superslab/unit.h"

WITHOUT_SAMPLES;

static int start(void **state) {
  (void)state;
  options_at_start();
  return 0;
}

/* All memory is expected to be written whole, since samples of each kind were. */
static int expect_whole(void **state) {
  (void)state;
  static struct superslab written[DENSE_KINDS];
  char *memory = mmap(NULL, UNIT_BYTES * DENSE_KINDS, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return -1;
  memset(memory, 1, UNIT_BYTES * DENSE_KINDS);
  dense_forget_all();
  for (unsigned i = 0; i < DENSE_KINDS; i++) {
    written[i] = (struct superslab){.base = memory, .huge_units = i};
    if (i > 0) written[i].huge_usable = i * UNIT_BYTES;
    dense_offer((enum dense_kind)i, &written[i]);
    if (dense_expected((enum dense_kind)i, NULL) != DENSE_YES) return -1;
  }
  munmap(memory, UNIT_BYTES * DENSE_KINDS);
  return 0;
}

static struct superslab *acquire_whole(void) {
  bool zeroed;
  struct slab *span =
      span_acquire(SLICES_PER_UNIT, 1, KIND_LARGE, PAGES_HUGE, COUNTED_LARGE, &zeroed);
  assert_non_null(span);
  struct superslab *superslab = superslab_of(span);
  assert_true(superslab_is_whole(superslab));
  assert_true(mapping_has_flag(superslab->base, " hg"));
  return superslab;
}

static bool stays_split(struct superslab *superslab) {
  superslab_split(superslab);
  assert_false(superslab_is_whole(superslab));
  return mapping_has_flag(superslab->base, " nh");
}

/* False where it would tell nothing. */
static bool advice_works(void) {
  if (option_value(SS_HUGEPAGE) != HUGEPAGE_THP) {
    print_message("HAKMEM_SS_HUGEPAGE is not thp: nobody asks for huge pages, not tested\n");
    return false;
  }
  struct unit_run probe = unit_reserve(1, 1, 0);
  assert_non_null(probe.base);
  bool works = os_advise_huge(probe.base, UNIT_BYTES) && mapping_has_flag(probe.base, " hg");
  unit_give_up(probe.base, 1, false);
  if (!works) print_message("madvise has no effect here, as under an emulator: not tested\n");
  return works;
}

static bool unit_asks(const struct superslab *huge, size_t unit) {
  return mapping_has_flag(huge->base + (unit << UNIT_SHIFT), " hg");
}

static struct superslab *acquire(size_t bytes) {
  bool zeroed;
  unit_trim(); /* pages of the pool would be used instead */
  struct superslab *huge = huge_acquire(bytes, UNIT_BYTES, &zeroed);
  assert_non_null(huge);
  return huge;
}

static void release(struct superslab *huge) {
  assert_true(huge_release(huge, huge->base));
  unit_trim();
}

/* Does the last of three units ask for huge pages, when the block needs so much of it? The second has to. */
static bool third_unit_asks(size_t used) {
  struct superslab *huge = acquire(2 * UNIT_BYTES + used);
  assert_true(unit_asks(huge, 1));
  bool asks = unit_asks(huge, 2);
  release(huge);
  return asks;
}

static void huge_blocks_ask_for_what_they_fill(void **state) {
  (void)state;
  if (!advice_works()) return;
  struct superslab *huge = acquire(3 * UNIT_BYTES);
  assert_true(unit_asks(huge, 0) && unit_asks(huge, 2));
  /* Grown, be it in place or moved. */
  huge = huge_resize(huge, huge->base, 3 * UNIT_BYTES + UNIT_BYTES / 4);
  assert_non_null(huge);
  assert_true(unit_asks(huge, 2));
  huge = huge_resize(huge, huge->base, 6 * UNIT_BYTES);
  assert_non_null(huge);
  assert_true(unit_asks(huge, 4) && unit_asks(huge, 5));
  release(huge);

  assert_false(third_unit_asks(UNIT_BYTES / 4)); /* a third of the block would stay unused */
  assert_true(third_unit_asks(UNIT_BYTES / 2));  /* a fifth */
}

static void lean_leaves_the_rest_in_small_pages(void **state) {
  (void)state;
#if HAK_FAST
  print_message("skipped: options are constants in this build\n");
  skip();
#else
  if (!advice_works()) return;
  int32_t lean = option_value(SS_MEM_LEAN);
  option_values[OPTION_SS_MEM_LEAN] = 1;
  bool third = third_unit_asks(UNIT_BYTES / 2);
  bool zeroed;
  struct slab *span =
      span_acquire(SLICES_PER_UNIT, 1, KIND_LARGE, PAGES_HUGE, COUNTED_LARGE, &zeroed);
  option_values[OPTION_SS_MEM_LEAN] = lean;
  assert_non_null(span);
  bool superslab = mapping_has_flag(superslab_of(span)->base, " hg");
  span_release(span);
  unit_trim();
  assert_false(third);
  assert_false(superslab);
#endif
}

/* A split unit is kept from becoming a huge page again, which makes it a mapping of its own: not where these might use up what the
 * kernel allows. */
static void split_units_do_not_use_up_the_mappings(void **state) {
  (void)state;
  enum { UNITS = 5, FIRST = 1, SECOND = 3 };
  struct superslab *superslabs[UNITS];
  if (!advice_works()) return;
  unit_trim();
  for (int i = 0; i < UNITS; i++) superslabs[i] = acquire_whole();
  assert_true(stays_split(superslabs[FIRST]));
  many_fill_up();
  ptrdiff_t below = superslabs[SECOND]->base - superslabs[SECOND - 1]->base,
            above = superslabs[SECOND + 1]->base - superslabs[SECOND]->base;
  if (below == above && (size_t)(below < 0 ? -below : below) == UNIT_BYTES)
    assert_false(stays_split(superslabs[SECOND]));
  else print_message("units do not lie beside each other: half of the test is left out\n");
  many_empty();
  for (int i = 0; i < UNITS; i++) span_release(&superslabs[i]->slabs[0]);
  unit_trim();
}

/* Is the span in a SuperSlab whose huge page was broken up? It is given back. */
static bool lies_in_split(enum span_pages pages) {
  bool zeroed;
  struct slab *span = span_acquire(1, 1, KIND_LARGE, pages, COUNTED_LARGE, &zeroed);
  assert_non_null(span);
  bool split = !superslab_is_whole(superslab_of(span));
  span_release(span);
  return split;
}

/* A load that comes back gets new SuperSlabs beside the free slices of split ones that have no pages, but only while half of all slices
 * are in use. */
static void fresh_pages_are_for_where_half_is_in_use(void **state) {
  (void)state;
  enum { SPLIT = 4, HALF = SLICES_PER_UNIT / 2 };
  static const unsigned sizes[3] = {HALF - 1, 1, HALF};
  struct slab *spans[SPLIT][3];
  bool zeroed;
  if (!advice_works()) return;
  unit_trim();
  for (int i = 0; i < SPLIT; i++) {
    for (int j = 0; j < 3; j++) {
      spans[i][j] = span_acquire(sizes[j], 1, KIND_LARGE, PAGES_HUGE, COUNTED_LARGE, &zeroed);
      assert_non_null(spans[i][j]);
      assert_ptr_equal(superslab_of(spans[i][j]), superslab_of(spans[i][0]));
    }
    superslab_split(superslab_of(spans[i][0]));
  }
  for (int i = 0; i < SPLIT; i++) span_release(spans[i][2]);
  span_release(spans[0][1]); /* one slice less than half of all is in use */
  clean_free_slices();
  assert_true(lies_in_split(PAGES_FRESH));
  spans[0][1] = span_acquire(1, 1, KIND_LARGE, PAGES_HUGE, COUNTED_LARGE, &zeroed);
  assert_non_null(spans[0][1]);
  assert_true(lies_in_split(PAGES_HUGE));
  assert_true(lies_in_split(PAGES_FRESH)); /* in what was just given back, whose pages are there */
  clean_free_slices();
  assert_false(lies_in_split(PAGES_FRESH));
  for (int i = 0; i < SPLIT; i++)
    for (int j = 0; j < 2; j++) span_release(spans[i][j]);
  unit_trim();
}

/* The first byte written in a huge page makes all of it resident: what lies beside a slab that was broken up has to go as well. */
static void slices_never_used_are_given_back_once_split(void **state) {
  (void)state;
  bool zeroed;
  if (!advice_works()) return;
  unit_trim();
  struct slab *span = span_acquire(1, 1, KIND_LARGE, PAGES_FRESH, COUNTED_LARGE, &zeroed);
  assert_non_null(span);
  struct superslab *superslab = superslab_of(span);
  assert_true(superslab_is_whole(superslab));
  uint32_t others = superslab->free_mask;
  assert_int_equal(__builtin_popcount(others), SLICES_PER_UNIT - 1);
  size_t before = superslab_dirty_bytes();
  superslab_split(superslab);
  assert_int_equal(superslab_dirty_bytes(), before + (SLICES_PER_UNIT - 1) * SLICE_BYTES);
  clean_free_slices();
  assert_int_equal(superslab_dirty_bytes(), 0);
  assert_int_equal(superslab->dirty_mask & others, 0);
  span_release(span);
  unit_trim();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(slices_never_used_are_given_back_once_split, expect_whole),
      cmocka_unit_test_setup(huge_blocks_ask_for_what_they_fill, expect_whole),
      cmocka_unit_test_setup(lean_leaves_the_rest_in_small_pages, expect_whole),
      cmocka_unit_test_setup(split_units_do_not_use_up_the_mappings, expect_whole),
      cmocka_unit_test_setup(fresh_pages_are_for_where_half_is_in_use, expect_whole),
  };
  if (pages_are_the_hosts()) return 77;
  return cmocka_run_group_tests_name("huge page advice", tests, start, NULL);
}
