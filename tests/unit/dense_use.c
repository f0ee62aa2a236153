/* dense_use.c - which memory is expected to be written whole: what samples of it told. */
#include "unit_test.h"

#include <string.h>

#include "superslab/dense.h"
#include "superslab/superslab.h"

WITHOUT_SAMPLES;

enum { UNITS = 4, BLOCKS = 20, LASTS_LEAST = 16, LOOKS_MOST = 16 };

static struct superslab blocks[BLOCKS];
static char *memory;

static int start(void **state) {
  (void)state;
  memory = os_map((size_t)(BLOCKS + 1) * UNITS * UNIT_BYTES);
  if (memory == NULL) return -1;
  memory += -(uintptr_t)memory & (UNIT_BYTES - 1);
  os_advise_small(memory, (size_t)BLOCKS * UNITS * UNIT_BYTES);
  return 0;
}

/* A Huge block, or with 0 units a SuperSlab of which 5 slices of 6 are used. */
static struct superslab *block(int i, uint32_t units) {
  struct superslab *made = &blocks[i];
  assert_false(atomic_load(&made->sample));
  made->base = memory + (size_t)i * UNITS * UNIT_BYTES;
  made->huge_units = units;
  if (units > 0) made->huge_usable = units * UNIT_BYTES - MIB;
  else made->free_mask = 0xf8000000;
  os_decommit(made->base, UNITS * UNIT_BYTES);
  return made;
}

static void write_whole(struct superslab *written, size_t bytes) {
  memset(written->base, 1, bytes);
}

static void one_block_tells_the_next(void **state) {
  (void)state;
  struct superslab *first = block(0, 2);
  assert_int_equal(dense_expected(2, first), DENSE_BUT_SAMPLE);
  first->base[0] = first->base[2 * MIB] = 1;
  assert_int_equal(dense_expected(2, block(1, 2)), DENSE_NO); /* not yet */
  write_whole(first, 2 * MIB);
  for (int i = 0; i < LASTS_LEAST; i++) assert_int_equal(dense_expected(2, block(2, 2)), DENSE_YES);
  assert_false(atomic_load(&first->sample));
  /* The last one was a good while ago: another is looked at. */
  struct superslab *second = block(3, 2);
  assert_int_equal(dense_expected(2, second), DENSE_BUT_SAMPLE);
  assert_int_equal(dense_expected(2, block(4, 2)), DENSE_YES); /* until it says otherwise */
  second->base[MIB] = 1;
  dense_last_check(second);
  assert_false(atomic_load(&second->sample));
  for (int i = 0; i < LASTS_LEAST; i++) assert_int_equal(dense_expected(2, block(5, 2)), DENSE_NO);
  assert_int_equal(dense_expected(2, block(6, 2)), DENSE_NO); /* the sample, with small pages */
  assert_true(atomic_load(&blocks[6].sample));
  dense_forget(&blocks[6]);
  assert_false(atomic_load(&blocks[6].sample));
}

/* Of these lengths nothing was known when the first of the others decided; each has a sample of its own then. */
static void other_lengths_start_with_what_is_known(void **state) {
  (void)state;
  for (int i = 0; i < LASTS_LEAST; i++) assert_int_equal(dense_expected(4, block(7, 4)), DENSE_YES);
  struct superslab *sample = block(8, 4);
  assert_int_equal(dense_expected(4, sample), DENSE_BUT_SAMPLE);
  /* Its ends tell nothing. */
  memset(sample->base, 1, 2 * UNIT_BYTES);
  dense_last_check(sample);
  assert_int_equal(dense_expected(4, NULL), DENSE_NO);
  assert_int_equal(dense_expected(3, NULL), DENSE_YES); /* the others do not change any more */
}

static void superslabs_are_expected_to_fill(void **state) {
  (void)state;
  struct superslab *sample = block(9, 0);
  dense_offer(DENSE_SPANS, sample);
  assert_true(atomic_load(&sample->sample));
  dense_offer(DENSE_SPANS, block(10, 0));
  assert_false(atomic_load(&blocks[10].sample));
  for (int i = 0; i < LOOKS_MOST - 1; i++)
    assert_int_equal(dense_expected(DENSE_SPANS, block(11, 0)), DENSE_YES);
  for (int i = 0; i < LASTS_LEAST; i++)
    assert_int_equal(dense_expected(DENSE_SPANS, block(12, 0)), DENSE_NO);
  struct superslab *second = block(13, 0);
  assert_int_equal(dense_expected(DENSE_SPANS, second), DENSE_NO);
  write_whole(second, 22 * SLICE_BYTES); /* of 27 that are used */
  assert_int_equal(dense_expected(DENSE_SPANS, block(14, 0)), DENSE_YES);
}

/* What was hardly used yet decides nothing, and does not stay the sample for ever. */
static void too_little_decides_nothing(void **state) {
  (void)state;
  while (dense_expected(DENSE_SPANS, block(15, 0)) == DENSE_YES) continue;
  struct superslab *sample = &blocks[15];
  sample->free_mask = UINT32_MAX;
  for (int i = 0; i < LOOKS_MOST - 1; i++) {
    assert_int_equal(dense_expected(DENSE_SPANS, block(16, 0)), DENSE_YES);
    assert_true(atomic_load(&sample->sample));
  }
  dense_expected(DENSE_SPANS, block(16, 0)); /* the sample, now */
  assert_false(atomic_load(&sample->sample));
  assert_true(atomic_load(&blocks[16].sample));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_block_tells_the_next),
      cmocka_unit_test(other_lengths_start_with_what_is_known),
      cmocka_unit_test(superslabs_are_expected_to_fill),
      cmocka_unit_test(too_little_decides_nothing),
  };
  if (pages_are_the_hosts()) return 77;
  return cmocka_run_group_tests_name("written whole", tests, start, NULL);
}
