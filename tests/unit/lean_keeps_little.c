/* lean_keeps_little.c - HAKMEM_SS_MEM_LEAN=1: which emptied SuperSlabs stay, and where Large blocks are put. */
#include "free_slices.h"
#include "superslab/unit.h"

#include <stdio.h>
#include <string.h>

#include "observe/counters.h"
#include "policy/options.h"
#include "superslab/figures.h"

WITHOUT_SAMPLES;

enum { EMPTIED = 4 };

static void set_lean(bool lean) {
  assert_int_equal(setenv("HAKMEM_SS_MEM_LEAN", lean ? "1" : "0", 1), 0);
  options_at_start();
}

static int start(void **state) {
  (void)state;
  return 0;
}

static int start_lean(void **state) {
  (void)state;
  set_lean(true);
  return 0;
}

static int trim(void **state) {
  (void)state;
  unit_trim();
  return 0;
}

static uint64_t superslabs_live(void) {
  struct superslab_stats stats;
  superslab_stats_get(&stats, false);
  return stats.live;
}

static uint64_t units_warm(void) { return unit_warm_bytes() >> UNIT_SHIFT; }

static struct slab *acquire_large(unsigned slices) {
  bool zeroed;
  struct slab *span = span_acquire(slices, 1, KIND_LARGE, PAGES_SMALL, COUNTED_LARGE, &zeroed);
  assert_non_null(span);
  return span;
}

/* SuperSlabs of one Large block each, whose last bytes are written, and which are emptied then. */
static void empty_superslabs(size_t bytes) {
  struct slab *spans[EMPTIED];
  for (int i = 0; i < EMPTIED; i++) {
    spans[i] = acquire_large(SLICES_PER_UNIT);
    memset(slab_base(spans[i]) + UNIT_BYTES - bytes, 1, bytes);
  }
  for (int i = 0; i < EMPTIED; i++) span_release(spans[i]);
}

/* Units in the warm pool after that. */
static uint64_t kept_of(size_t bytes) {
  unit_trim();
  empty_superslabs(bytes);
  return units_warm();
}

static void one_emptied_superslab_is_kept_and_all_full_ones(void **state) {
  (void)state;
  uint64_t live = superslabs_live();
  assert_int_equal(kept_of(UNIT_BYTES), EMPTIED);
  assert_int_equal(kept_of(UNIT_BYTES / 2), 1);
  set_lean(false);
  assert_int_equal(kept_of(UNIT_BYTES / 2), EMPTIED);
  assert_int_equal(superslabs_live(), live);
}

static void large_blocks_end_where_others_ended(void **state) {
  (void)state;
  enum { PARTS = 3 };
  static const unsigned parts[PARTS] = {9, 17, 4};
  struct slab *spans[PARTS];
  uint64_t live = superslabs_live();
  empty_superslabs(1);
  /* Next to nothing of them is in memory: they stay, and not in the warm pool. */
  assert_int_equal(superslabs_live(), live + EMPTIED);
  assert_int_equal(units_warm(), 0);
  for (int i = 0; i < PARTS; i++) {
    spans[i] = acquire_large(parts[i]);
    assert_int_equal(spans[i]->index + parts[i], SLICES_PER_UNIT);
  }
  for (int i = 0; i < PARTS; i++) span_release(spans[i]);
  assert_int_equal(superslabs_live(), live + EMPTIED);
  /* And go for good when their pages have gone. */
  assert_int_equal(clean_free_slices(), EMPTIED);
  assert_int_equal(superslabs_live(), live);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(one_emptied_superslab_is_kept_and_all_full_ones, start_lean,
                                      trim),
      cmocka_unit_test_setup_teardown(large_blocks_end_where_others_ended, start_lean, trim),
  };
  if (HAK_FAST) {
    puts("skipped: the fast variant has its options fixed at compile time");
    return 77;
  }
  if (pages_are_the_hosts()) return 77;
  return cmocka_run_group_tests_name("lean keeps little", tests, start, NULL);
}
