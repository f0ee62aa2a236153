/* resize_in_slab.c - realloc of the blocks of slabs: of every class, in every slice of a slab, from the thread's own slabs and
 * another's. It leaves a block where it is as long as more than half of it is wanted. */
#include "unit_test.h"

#include <pthread.h>

#include "slab/slab.h"
#include "superslab/map.h"

WITHOUT_SAMPLES;

enum { BLOCKS = 12 }; /* a slab of several slices has 8 or more */

static void fill(unsigned char *block, size_t bytes) {
  for (size_t i = 0; i < bytes; i++) block[i] = (unsigned char)(i * 7 + bytes);
}

static bool is_filled(const unsigned char *block, size_t bytes, size_t as) {
  for (size_t i = 0; i < bytes; i++)
    if (block[i] != (unsigned char)(i * 7 + as)) return false;
  return true;
}

static void resize_one(unsigned char *block) {
  size_t size = hak_usable_size(block), less = size > 64 ? size / 4 : size; /* of a smaller class */
  fill(block, size);
  assert_ptr_equal(hak_realloc(block, size), block);
  assert_ptr_equal(hak_realloc(block, size / 2 + 1), block);
  assert_ptr_equal(hak_realloc(block, size), block);
  assert_true(is_filled(block, size, size));
  unsigned char *moved = hak_realloc(block, size + 1);
  assert_ptr_not_equal(moved, block);
  assert_true(hak_usable_size(moved) > size);
  assert_true(is_filled(moved, size, size));
  moved = hak_realloc(moved, less);
  assert_true(is_filled(moved, less, size));
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

/* Every size that a class has is a multiple of 16 bytes and larger than the one before; class_for leads back to it. */
static void class_sizes_are_those_of_the_formula(void **state) {
  (void)state;
  for (unsigned c = 0; c < CLASS_COUNT; c++) {
    assert_int_equal(class_sizes[c], class_size(c));
    assert_int_equal(class_for(class_sizes[c]), c);
    assert_true(c == 0 || class_sizes[c] > class_sizes[c - 1]);
    assert_int_equal(class_sizes[c] % BLOCK_ALIGNMENT, 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(of_own_blocks),
      cmocka_unit_test(of_blocks_of_other_threads),
      cmocka_unit_test(class_sizes_are_those_of_the_formula),
  };
  return cmocka_run_group_tests_name("resize in slab", tests, NULL, NULL);
}
