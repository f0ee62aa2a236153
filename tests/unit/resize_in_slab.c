/* resize_in_slab.c - realloc of blocks of every class, in every slice of a slab, of the thread's own slabs and of others': a block stays
 * where it is as long as more than half of it is wanted. */
#include "unit_test.h"

#include <pthread.h>

#include "slab/slab.h"
#include "superslab/map.h"

WITHOUT_SAMPLES;

enum { BLOCKS = 12 }; /* a slab of several slices has 8 or more */

static void resize_one(unsigned char *block) {
  size_t size = hak_usable_size(block), less = size > 64 ? size / 4 : size; /* of a smaller class */
  fill_block(block, size, size);
  assert_ptr_equal(hak_realloc(block, size), block);
  assert_ptr_equal(hak_realloc(block, size / 2 + 1), block);
  assert_ptr_equal(hak_realloc(block, size), block);
  assert_true(block_is_filled(block, size, size));
  unsigned char *moved = hak_realloc(block, size + 1);
  assert_ptr_not_equal(moved, block);
  assert_true(hak_usable_size(moved) > size);
  assert_true(block_is_filled(moved, size, size));
  moved = hak_realloc(moved, less);
  assert_true(block_is_filled(moved, less, size));
  assert_null(hak_realloc(moved, 0));
}

static void *resize_all(void *unused) {
  unsigned char *blocks[BLOCKS];
  for (unsigned c = 0; c < CLASS_COUNT; c++) {
    for (unsigned i = 0; i < BLOCKS; i++) assert_non_null(blocks[i] = hak_malloc(class_size(c)));
    for (unsigned i = 0; i < BLOCKS; i++) resize_one(blocks[i]);
  }
  return unused;
}

static void of_own_blocks(void **state) {
  (void)state;
  resize_all(NULL);
}

static unsigned char *others[CLASS_COUNT];

static void *allocate_others(void *unused) {
  for (unsigned c = 0; c < CLASS_COUNT; c++) others[c] = hak_malloc(class_size(c));
  return unused;
}

static void *resize_others(void *unused) {
  for (unsigned c = 0; c < CLASS_COUNT; c++) resize_one(others[c]);
  return unused;
}

static void run(void *(*body)(void *)) {
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, body, NULL), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
}

static void of_blocks_of_other_threads(void **state) {
  (void)state;
  run(resize_all);
  run(allocate_others);
  resize_others(NULL);
  allocate_others(NULL);
  run(resize_others);
}

/* With room for an eighth more, but not beyond the power of two at which buffers often end. */
static void what_grows_by_little_ends_at_powers_of_two(void **state) {
  (void)state;
  for (size_t power = 2 * KIB; power <= 16 * KIB; power *= 2) {
    unsigned size_class = class_for(power) - 1;
    void *block = hak_malloc(class_size(size_class));
    assert_non_null(block = hak_realloc(block, hak_usable_size(block) + power / 64));
    if (!HAK_HARDENED) assert_int_equal(hak_usable_size(block), power);
    hak_free(block);
    size_class = class_for(power / 2 + power / 4); /* in between an eighth more it is */
    block = hak_malloc(class_size(size_class));
    size_t size = hak_usable_size(block) + 1;
    assert_non_null(block = hak_realloc(block, size));
    if (!HAK_HARDENED) assert_true(hak_usable_size(block) >= size + size / 8);
    hak_free(block);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(of_own_blocks),
      cmocka_unit_test(of_blocks_of_other_threads),
      cmocka_unit_test(what_grows_by_little_ends_at_powers_of_two),
  };
  return cmocka_run_group_tests_name("resize in slab", tests, NULL, NULL);
}
