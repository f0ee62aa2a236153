/* sampled_resize.c - hardened: realloc of a Huge block that is a sample, and that cannot grow where it is although its units have room: the
 * kernel does not take the guard behind it away. Each block is a sample here (CMakeLists.txt). */
#include "unit_test.h"

#include <errno.h>
#include <sys/mman.h>

#include "front/block.h"
#include "os/fault.h"

/* Pages that are guarded stay so, whether they are marked (Linux 6.13 and later) or have a mapping of their own. */
static bool guards_stay;

/* The linker calls them so. */
long __real_call_madvise(void *address, size_t bytes, int advice);
long __wrap_call_madvise(void *address, size_t bytes, int advice);
long __wrap_call_madvise(void *address, size_t bytes, int advice) {
  enum { GUARD_REMOVE = 103 };
  if (guards_stay && advice == GUARD_REMOVE) return -ENOMEM;
  return __real_call_madvise(address, bytes, advice);
}

long __real_call_mprotect(void *address, size_t bytes, int protection);
long __wrap_call_mprotect(void *address, size_t bytes, int protection);
long __wrap_call_mprotect(void *address, size_t bytes, int protection) {
  if (guards_stay && protection != PROT_NONE) return -ENOMEM;
  return __real_call_mprotect(address, bytes, protection);
}

long __real_call_mmap(void *address, size_t bytes, int protection, int flags, int file);
long __wrap_call_mmap(void *address, size_t bytes, int protection, int flags, int file);
long __wrap_call_mmap(void *address, size_t bytes, int protection, int flags, int file) {
  if (guards_stay && (flags & MAP_FIXED) != 0) return -ENOMEM;
  return __real_call_mmap(address, bytes, protection, flags, file);
}

static const size_t before = 3 * MIB;

static size_t after(void) { return before + os_page_size(); }

static char *take_sample(void) {
  hak_purge(); /* or it may be one that was freed, and has room for more */
  char *block = hak_malloc(before);
  assert_non_null(block);
  struct block found = block_find(block);
  assert_int_equal(found.tier, BLOCK_HUGE);
  assert_true(found.superslab->fenced && huge_room(found.superslab) > after());
  assert_true(sample_has(&found.superslab->slabs[0]));
  fill_block(block, before, 1);
  return block;
}

static void grows_where_it_is(void **state) {
  (void)state;
  char *block = take_sample();
  assert_ptr_equal(hak_realloc(block, after()), block);
  assert_true(block_is_filled(block, before, 1));
  hak_free(block);
}

static void moves_where_the_guard_stays(void **state) {
  (void)state;
  char *block = take_sample();
  guards_stay = true;
  char *moved = hak_realloc(block, after());
  guards_stay = false;
  assert_non_null(moved);
  assert_ptr_not_equal(moved, block);
  assert_true(hak_usable_size(moved) >= after());
  assert_true(block_is_filled(moved, before, 1));
  hak_free(moved);
}

static void fails_as_realloc_does_where_there_is_no_memory_either(void **state) {
  (void)state;
  char *block = take_sample();
  hak_purge();
  guards_stay = true;
  os_fault_fail_from(1);
  errno = 0;
  char *moved = hak_realloc(block, after());
  int error = errno;
  os_fault_reset();
  guards_stay = false;
  assert_null(moved);
  assert_int_equal(error, ENOMEM);
  assert_true(block_is_filled(block, before, 1));
  assert_true(hak_usable_size(block) >= before);
  hak_free(block);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(grows_where_it_is),
      cmocka_unit_test(moves_where_the_guard_stays),
      cmocka_unit_test(fails_as_realloc_does_where_there_is_no_memory_either),
  };
  return cmocka_run_group_tests_name("sampled_resize", tests, NULL, NULL);
}
