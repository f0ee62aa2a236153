/* units.c - units of 2 MiB: aligned, apart, zeroed where they say so, and from the warm pool first. */
#include "superslab/map.h"
#include "superslab_figures.h"

#include <string.h>

#include "observe/counters.h"
#include "policy/options.h"

WITHOUT_SAMPLES;

static int start(void **state) {
  (void)state;
  options_at_start();
  return 0;
}

static void units_are_aligned_apart_and_what_they_say(void **state) {
  (void)state;
  enum { RUNS = 60 };
  struct {
    struct unit_run run;
    size_t units;
  } held[RUNS] = {0};
  uint64_t random = 17;
  unit_trim();
  uint64_t mapped = unit_figures().bytes_mapped;
  for (int step = 0; step < 400 * EFFORT; step++) {
    int i = (int)random_below(&random, RUNS);
    if (held[i].run.base != NULL) {
      for (size_t u = 0; u < held[i].units; u++) {
        assert_int_equal(held[i].run.base[u << UNIT_SHIFT], (char)i);
        assert_int_equal(held[i].run.base[((u + 1) << UNIT_SHIFT) - 1], (char)i);
      }
      unit_release(held[i].run.base, held[i].units, false, 0);
      held[i].run.base = NULL;
      continue;
    }
    held[i].units = 1 + (random_below(&random, 4) == 0 ? random_below(&random, 20) : 0);
    size_t alignment = UNIT_BYTES << (random_below(&random, 5) == 0 ? random_below(&random, 5) : 0);
    held[i].run = unit_acquire(held[i].units, alignment);
    char *base = held[i].run.base;
    assert_non_null(base);
    assert_true(is_aligned(base, alignment));
    for (size_t u = 0; u < held[i].units; u++) {
      char *first = base + (u << UNIT_SHIFT), *last = first + UNIT_BYTES - 1;
      if (held[i].run.zeroed) {
        assert_int_equal(*first, 0);
        assert_int_equal(*last, 0);
      }
      *first = *last = (char)i;
    }
  }
  for (int i = 0; i < RUNS; i++)
    if (held[i].run.base != NULL) unit_release(held[i].run.base, held[i].units, false, 0);
  unit_trim();
  assert_int_equal(unit_figures().units_warm, 0);
  assert_int_equal(unit_figures().bytes_mapped, mapped);
}

static void prewarmed_units_are_resident_and_come_first(void **state) {
  (void)state;
  unit_trim();
  uint64_t mapped = unit_figures().bytes_mapped;
  assert_int_equal(unit_prewarm(0), 0);
  size_t units = unit_prewarm(3);
  if (units == 0) return; /* the pool may hold nothing */
  assert_true(units <= 3);
  assert_int_equal(unit_figures().units_warm, units);
  assert_int_equal(unit_figures().bytes_mapped, mapped + (units << UNIT_SHIFT));
  uint64_t calls = atomic_load(&os_counts.mmap);
  struct unit_run run = unit_acquire(units, UNIT_BYTES);
  assert_int_equal(atomic_load(&os_counts.mmap), calls);
  assert_true(run.zeroed && !run.from_os);
  for (size_t at = 0; at < units << UNIT_SHIFT; at += 64 * KIB) {
    assert_int_equal(run.base[at], 0);
    assert_true(is_resident(run.base + at));
  }
  unit_release(run.base, units, false, 0);
  unit_trim();
}

static void units_come_from_the_warm_pool_first(void **state) {
  (void)state;
  unit_trim();
  struct unit_run first = unit_acquire(3, UNIT_BYTES);
  assert_non_null(first.base);
  unit_release(first.base, 3, false, 0);
  if (option_value(WARM_POOL_MB) < 8) return; /* a pool too small to keep it: nothing to see */
  assert_int_equal(unit_figures().units_warm, 3);
  uint64_t mapped = atomic_load(&os_counts.mmap);
  struct unit_run part = unit_acquire(1, UNIT_BYTES);
  struct unit_run rest = unit_acquire(2, UNIT_BYTES);
  assert_int_equal(atomic_load(&os_counts.mmap), mapped);
  assert_true(part.base >= first.base && part.base < first.base + 3 * UNIT_BYTES);
  assert_true(rest.base >= first.base && rest.base < first.base + 3 * UNIT_BYTES);
  assert_int_equal(unit_figures().units_warm, 0);
  unit_release(part.base, 1, false, 0);
  unit_release(rest.base, 2, false, 0);
  assert_int_equal(unit_figures().units_warm, 3);
  assert_int_equal(unit_trim(), 3 * UNIT_BYTES);
  assert_int_equal(unit_figures().units_warm, 0);
}

/* As an explicit huge page is: known as such on every way, and never given back in parts. (They are ordinary pages
 * here, which behave the same when they are given back whole.) */
static void explicit_huge_pages_stay_known(void **state) {
  (void)state;
  if (option_value(WARM_POOL_MB) < 8 || option_value(SS_MEM_LEAN)) return;
  unit_trim();
  struct unit_run run = unit_acquire(3, UNIT_BYTES);
  assert_non_null(run.base);
  memset(run.base, 1, 3 * UNIT_BYTES);
  unit_release(run.base, 2, true, 0);
  unit_release(run.base + 2 * UNIT_BYTES, 1, false, 0);
  struct unit_run ordinary =
      unit_acquire(1, UNIT_BYTES); /* the shorter run: they were not joined */
  assert_false(ordinary.huge_pages);
  bool zeroed;
  struct superslab *huge = huge_acquire(2 * UNIT_BYTES, UNIT_BYTES, &zeroed);
  assert_ptr_equal(huge->base, run.base);
  assert_true(huge->explicit_pages && !zeroed);
  assert_ptr_equal(huge_resize(huge, huge->base, UNIT_BYTES), huge); /* one goes back */
  struct slab *span = span_acquire(4, 1, KIND_LARGE, PAGES_SMALL, COUNTED_LARGE, &zeroed);
  struct superslab *superslab = superslab_of(span);
  assert_ptr_equal(superslab->base, run.base + UNIT_BYTES);
  assert_true(superslab->explicit_pages && !zeroed);
  assert_false(superslab_may_split(superslab, SLICES_PER_UNIT - 4, true));
  struct dirty_cursor cursor = {0};
  struct dirty_slices set;
  size_t unexpired = 0;
  while (superslab_take_dirty(&cursor, 0, &set, 1, &unexpired) > 0) {
    assert_ptr_not_equal(set.superslab, superslab);
    superslab_put_clean(set, false);
  }
  span_release(span);
  assert_true(huge_release(huge, run.base));
  struct unit_run again = unit_acquire(2, UNIT_BYTES);
  assert_ptr_equal(again.base, run.base);
  assert_true(again.huge_pages);
  unit_give_up(again.base, 2, true);
  unit_give_up(ordinary.base, 1, false);
}

/* Pages are to be moved into them: those of the pool would be lost. */
static void reserved_units_leave_the_warm_pool_alone(void **state) {
  (void)state;
  unit_trim();
  struct unit_run warm = unit_acquire(3, UNIT_BYTES);
  assert_non_null(warm.base);
  unit_release(warm.base, 3, false, 0);
  struct unit_stats before = unit_figures();
  struct unit_run run = unit_reserve(2, 2, 0);
  assert_non_null(run.base);
  assert_true(run.zeroed && is_aligned(run.base, UNIT_BYTES));
  assert_true(block_is_zero(run.base, 2 * UNIT_BYTES));
  assert_int_equal(unit_figures().units_warm, before.units_warm);
  assert_int_equal(unit_figures().bytes_mapped, before.bytes_mapped + 2 * UNIT_BYTES);
  unit_release(run.base, 2, false, 0);
  unit_trim();
  assert_int_equal(unit_figures().bytes_mapped,
                   before.bytes_mapped - before.units_warm * UNIT_BYTES);
}

static void units_refuse_what_no_address_space_holds(void **state) {
  (void)state;
  assert_null(unit_acquire(0, UNIT_BYTES).base);
  assert_null(unit_acquire(MAP_LEAVES * LEAF_UNITS, UNIT_BYTES).base);
  assert_null(unit_acquire(SIZE_MAX >> UNIT_SHIFT, UNIT_BYTES).base);
  assert_null(unit_acquire(SIZE_MAX, UNIT_BYTES).base);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(units_are_aligned_apart_and_what_they_say),
      cmocka_unit_test(prewarmed_units_are_resident_and_come_first),
      cmocka_unit_test(units_come_from_the_warm_pool_first),
      cmocka_unit_test(explicit_huge_pages_stay_known),
      cmocka_unit_test(reserved_units_leave_the_warm_pool_alone),
      cmocka_unit_test(units_refuse_what_no_address_space_holds),
  };
  return cmocka_run_group_tests_name("units", tests, start, NULL);
}
