/* huge_tail.c - blocks of whole units with a guard behind their end, where the kernel refuses to move it: they stay as they are. */
#include "superslab_figures.h"

#include <string.h>

WITHOUT_SAMPLES;

static unsigned refusals; /* calls that are left to be refused */

bool __real_os_unguard(void *address, size_t bytes);
bool __wrap_os_unguard(void *address, size_t bytes); /* the linker calls it so */
bool __wrap_os_unguard(void *address, size_t bytes) {
  if (refusals == 0) return __real_os_unguard(address, bytes);
  refusals--;
  return false;
}

/* Units that a block which moves could fill its new place with. */
static void fill_the_pool(void) {
  enum { COUNT = 18000, SIZE = 1000 };
  static void *blocks[COUNT];
  for (int i = 0; i < COUNT; i++) {
    assert_non_null(blocks[i] = hak_malloc(SIZE));
    memset(blocks[i], 1, SIZE);
  }
  for (int i = 0; i < COUNT; i++) hak_free(blocks[i]);
  assert_true(unit_figures().units_warm >= 6);
}

static void shrinks_from(size_t bytes, unsigned refused) {
  unsigned char *block = hak_malloc(bytes);
  assert_non_null(block);
  fill_block(block, bytes, bytes);
  fill_the_pool();
  refusals = refused;
  unsigned char *shrunk = hak_realloc(block, bytes / 4);
  refusals = 0;
  assert_ptr_equal(shrunk, block);
  assert_true(block_is_filled(shrunk, bytes / 4, bytes));
  assert_true(hak_usable_size(shrunk) >= bytes / 4);
  memset(shrunk, 3, hak_usable_size(shrunk));
  hak_free(shrunk);
}

static void a_block_that_cannot_shrink_stays(void **state) {
  (void)state;
  for (unsigned refused = 1; refused <= 4; refused++) {
    shrinks_from(40 * MIB, refused);
    shrinks_from(41 * MIB + 5000, refused);
  }
}

static void one_that_cannot_grow_stays_too(void **state) {
  (void)state;
  for (unsigned refused = 1; refused <= 4; refused++) {
    size_t bytes = 9 * MIB + 4096;
    unsigned char *block = hak_malloc(bytes);
    assert_non_null(block);
    fill_block(block, bytes, refused);
    refusals = refused;
    unsigned char *grown = hak_realloc(block, 30 * MIB);
    refusals = 0;
    if (grown != NULL) block = grown;
    assert_true(block_is_filled(block, bytes, refused));
    hak_free(block);
  }
}

/* Nothing leaves the pool because a run takes long. */
static int start(void **state) {
  (void)state;
  options_at_start();
  SET_OPTION(WARM_POOL_DECAY_MS, VERY_LONG_MS);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_block_that_cannot_shrink_stays),
      cmocka_unit_test(one_that_cannot_grow_stays_too),
  };
  return cmocka_run_group_tests_name("huge tail", tests, start, NULL);
}
