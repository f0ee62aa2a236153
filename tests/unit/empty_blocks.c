/* malloc(0) in the hardened variant: addresses of their own that nothing may touch (front/empty.h). */
#include "child.h"

#include <pthread.h>
#include <signal.h>

#include "front/empty.h"
#include "front/front.h"

static void *blocks[EMPTY_BLOCKS + 1000];

static int by_address(const void *a, const void *b) {
  const char *x = *(void *const *)a, *y = *(void *const *)b;
  return x < y ? -1 : x > y;
}

static void check_empty(void *block) {
  assert_non_null(block);
  assert_true(empty_has(block));
  assert_int_equal(hak_usable_size(block), 0);
  assert_int_equal(hak_room(block), 0);
  assert_true(hak_owns(block));
}

static void every_form_gives_one(void **state) {
  (void)state;
  void *aligned = NULL;
  assert_int_equal(hak_posix_memalign(&aligned, BLOCK_ALIGNMENT, 0), 0);
  void *forms[] = {hak_malloc(0), hak_calloc(0, 8), hak_realloc(NULL, 0), hak_aligned_alloc(8, 0),
                   aligned};
  for (unsigned i = 0; i < sizeof forms / sizeof forms[0]; i++) {
    check_empty(forms[i]);
    for (unsigned j = 0; j < i; j++) assert_ptr_not_equal(forms[i], forms[j]);
  }
  hak_free_sized(forms[0], 0);
  hak_free_aligned_sized(forms[4], BLOCK_ALIGNMENT, 0);
  for (unsigned i = 1; i < 4; i++) hak_free(forms[i]);
  assert_false(hak_owns(forms[0]));
}

static void an_aligned_one_is_aligned(void **state) {
  (void)state;
  char *block = hak_aligned_alloc(4096, 0);
  assert_non_null(block);
  assert_int_equal((uintptr_t)block % 4096, 0);
  hak_free(block);
}

static void realloc_makes_a_block(void **state) {
  (void)state;
  static const size_t sizes[] = {1, 100, 5000, 300000, 5000000};
  for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    void *empty = hak_malloc(0);
    check_empty(empty);
    char *block = hak_realloc(empty, sizes[i]);
    assert_non_null(block);
    assert_false(empty_has(block));
    assert_false(hak_owns(empty));
    fill_block(block, sizes[i], 1);
    block = hak_realloc(block, sizes[i] + 1);
    assert_non_null(block);
    assert_null(hak_realloc(block, 0));
    assert_null(hak_realloc(hak_malloc(0), 0));
  }
}

static void a_refused_realloc_leaves_it(void **state) {
  (void)state;
  void *empty = hak_malloc(0);
  assert_null(hak_realloc(empty, PTRDIFF_MAX));
  check_empty(empty);
  hak_free(empty);
}

/* The next address is another one for as long as there are some that were not used. */
static void an_address_waits(void **state) {
  (void)state;
  void *first = hak_malloc(0);
  hak_free(first);
  for (unsigned i = 0; i < EMPTY_BLOCKS / 2; i++) {
    void *block = hak_malloc(0);
    assert_ptr_not_equal(block, first);
    hak_free(block);
  }
}

static void beyond_all_of_them_blocks_are_ordinary(void **state) {
  (void)state;
  unsigned count = sizeof blocks / sizeof blocks[0], empty = 0;
  for (unsigned i = 0; i < count; i++) {
    assert_non_null(blocks[i] = hak_malloc(0));
    empty += empty_has(blocks[i]);
  }
  assert_int_equal(empty, EMPTY_BLOCKS);
  qsort(blocks, count, sizeof blocks[0], by_address);
  for (unsigned i = 1; i < count; i++) assert_ptr_not_equal(blocks[i - 1], blocks[i]);
  for (unsigned i = 0; i < count; i++) hak_free(blocks[i]);
  void *again = hak_malloc(0);
  check_empty(again);
  hak_free(again);
}

static void *take_and_give(void *argument) {
  void **mine = argument;
  for (unsigned round = 0; round < 200; round++) {
    for (unsigned i = 0; i < 100; i++) assert_non_null(mine[i] = hak_malloc(0));
    for (unsigned i = 0; i < 100; i++)
      hak_free(mine[i]); /* twice the same: it would end the program */
  }
  return NULL;
}

static void threads_get_different_ones(void **state) {
  (void)state;
  enum { THREADS = 4 };
  pthread_t threads[THREADS];
  for (unsigned i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, take_and_give, blocks + i * 100), 0);
  for (unsigned i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
}

static void free_twice(void) {
  void *block = hak_malloc(0);
  hak_free(block);
  hak_free(block);
}
static void free_between(void) { hak_free((char *)hak_malloc(0) + 1); }
static void free_with_a_size(void) { hak_free_sized(hak_malloc(0), 1); }
static void resize_freed(void) {
  void *block = hak_malloc(0);
  hak_free(block);
  (void)!hak_realloc(block, 10);
}

static void misuse_is_stopped(void **state) {
  (void)state;
  child_ends_with(free_twice, "free(): ");
  child_ends_with(free_twice, REPORT_DOUBLE_FREE);
  child_ends_with(free_between, REPORT_INTERIOR);
  child_ends_with(free_with_a_size, REPORT_WRONG_SIZE);
  child_ends_with(resize_freed, REPORT_DOUBLE_FREE);
}

static void a_touch_faults(void **state) {
  (void)state;
  for (int write = 0; write < 2; write++) {
    volatile char *block = hak_malloc(0);
    pid_t child = fork();
    if (child == 0) {
      signal(SIGSEGV, SIG_DFL); /* cmocka has a handler */
      if (write) *block = 1;
      else (void)*block;
      _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    hak_free((void *)(uintptr_t)block);
  }
}

/* What the parent had, the child may free. */
static void a_child_of_fork_has_them(void **state) {
  (void)state;
  void *block = hak_malloc(0);
  pid_t child = fork();
  if (child == 0) {
    hak_free(block);
    _exit(hak_owns(block) || hak_malloc(0) == NULL);
  }
  child_ends_well(child);
  check_empty(block);
  hak_free(block);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_form_gives_one),
      cmocka_unit_test(an_aligned_one_is_aligned),
      cmocka_unit_test(realloc_makes_a_block),
      cmocka_unit_test(a_refused_realloc_leaves_it),
      cmocka_unit_test(an_address_waits),
      cmocka_unit_test(beyond_all_of_them_blocks_are_ordinary),
      cmocka_unit_test(threads_get_different_ones),
      cmocka_unit_test(misuse_is_stopped),
      cmocka_unit_test(a_touch_faults),
      cmocka_unit_test(a_child_of_fork_has_them),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
