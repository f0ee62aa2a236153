/* learn_moves_capacity.c - the adaptive policy (HAKMEM_LEARN): capacity moves from classes at rest to a class at work. */
#include "unit_test.h"

#include "hakmem.h"
#include "heap/heap.h"
#include "heap/learn.h"
#include "policy/options.h"

WITHOUT_SAMPLES;

enum { BURST_BYTES = 1024 * 1024, RESTING_FROM = 500, RESTING_TO = 65000, WORKING = 400 };

static struct heap *mine(void) {
  struct heap *heap = heap_of_thread();
  assert_non_null(heap);
  return heap;
}

/* Allocates and frees a MiB of blocks a few times: its bin then wants to be deep. */
static void burst(size_t size) {
  static void *blocks[BURST_BYTES / 256];
  size_t count = BURST_BYTES / size;
  for (int round = 0; round < 3; round++) {
    for (size_t i = 0; i < count; i++) assert_non_null(blocks[i] = hak_malloc(size));
    for (size_t i = 0; i < count; i++) hak_free(blocks[i]);
  }
}

/* What every bin promises, and their sum. */
static void check_bins(const struct heap *heap) {
  size_t used = 0;
  for (unsigned c = 0; c < CLASS_COUNT; c++) {
    int64_t held = 0;
    for (void *block = heap->bins[c].head; block != NULL; block = link_next(block)) held++;
    assert_int_equal(heap->bins[c].room, (int64_t)heap->bins[c].capacity - held);
    used += (size_t)heap->bins[c].capacity * class_size(c);
  }
  assert_int_equal(heap->bin_budget_used, used);
}

static uint32_t capacity_after_bursts(int learn) {
  SET_OPTION(LEARN, learn);
  for (size_t size = RESTING_FROM; size < RESTING_TO; size += size / 8) burst(size);
  check_bins(mine());
  /* Twice, so that the others' traffic is forgotten in between. */
  for (int i = 0; i < 40; i++) burst(WORKING);
  check_bins(mine());
  return mine()->bins[class_for(WORKING)].capacity;
}

static void a_class_at_work_gets_what_others_do_not_use(void **state) {
  (void)state;
  uint32_t without = capacity_after_bursts(0), with = capacity_after_bursts(1);
  assert_true(with > without);
}

static void refills_grow_and_shrink_with_the_traffic(void **state) {
  (void)state;
  SET_OPTION(LEARN, 1);
  unsigned size_class = class_for(WORKING);
  struct heap *heap = mine();
  uint8_t *shift = &heap->learner.refill_shift[size_class];
  *shift = 0;
  for (int i = 0; i < 10; i++) learn_refill(heap, size_class);
  uint8_t grown = *shift;
  assert_in_range(grown, 2, 6);
  learn_overflow(heap, size_class);
  assert_int_equal(*shift, grown - 1);
  for (int i = 0; i < 10; i++) learn_overflow(heap, size_class);
  assert_int_equal(*shift, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_class_at_work_gets_what_others_do_not_use),
      cmocka_unit_test(refills_grow_and_shrink_with_the_traffic),
  };
  if (HAK_FAST) {
    puts("skipped: the fast variant has its options fixed at compile time");
    return 77;
  }
  options_at_start();
  return cmocka_run_group_tests_name("learn moves capacity", tests, NULL, NULL);
}
