/* helper_refused.c - where the system refuses the helper thread: from then on the program's own calls give back what it would.
 *
 * usage: helper_refused [much | tried | boxes] */
#include "unit_test.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "heap/purger.h"
#include "release/background.h"
#include "release/beat.h"
#include "release/box.h"
#include "release/growth.h"
#include "superslab/collapse.h"
#include "superslab/unit_os.h"

WITHOUT_SAMPLES;

enum { SIZE = 4 * KIB, COUNT = 8 * KIB, LITTLE = 128, MUCH = 768 };

static unsigned asked;
static void (*meanwhile)(void);
static bool refuses = true;

bool __real_os_thread_start(void (*body)(void));
bool __wrap_os_thread_start(void (*body)(void)); /* the linker calls it so */
bool __wrap_os_thread_start(void (*body)(void)) {
  asked++;
  if (meanwhile != NULL) meanwhile();
  return !refuses && __real_os_thread_start(body);
}

static unsigned looked;

bool __real_os_is_in_loader(void);
bool __wrap_os_is_in_loader(void);
bool __wrap_os_is_in_loader(void) {
  looked++;
  return __real_os_is_in_loader();
}

static void *blocks[COUNT];

static void free_up_to(size_t end) {
  static size_t freed;
  for (; freed < end; freed++) hak_free(blocks[freed]);
}

static bool is_refused(void) { return atomic_load(&purger_refused_ms) != 0; }

/* malloc asks for it while memory grows, and no free does. */
static void only_much_is_worth_a_beat(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT; i++) {
    assert_non_null(blocks[i] = hak_malloc(SIZE));
    memset(blocks[i], 1, SIZE);
  }
  assert_int_equal(asked, 1); /* the system is asked once in a second */
  assert_true(is_refused());
  assert_int_equal(purger_worth(), RELEASE_LEAST);
  free_up_to(LITTLE);
  assert_false(release_has_beats());
  free_up_to(MUCH);
  assert_true(release_has_beats());
  assert_int_equal(asked, 1);
}

/* In one call. */
static void much_is_worth_beats_at_once(void **state) {
  (void)state;
  void *block = hak_malloc(12 * MIB);
  assert_non_null(block);
  memset(block, 1, 12 * MIB);
  assert_int_equal(asked, 1);
  hak_free(block);
  assert_int_equal(asked, 1);
  assert_true(release_has_beats());
}

/* To look at the stack takes some 2 us, in system calls. */
static void no_large_block_looks_at_the_stack_in_vain(void **state) {
  (void)state;
  void *block = hak_malloc(12 * MIB);
  assert_non_null(block);
  assert_true(unit_mapped_bytes() >= RELEASE_MOST);
  assert_int_equal(atomic_load(&purger_helper), HELPER_NONE);
  assert_int_not_equal(asked, 0);
  for (int i = 0; i < 100; i++) hak_free(hak_malloc(MIB));
  assert_int_equal(looked, asked);
  hak_free(block);
}

static void one_that_starts_is_told(void **state) {
  (void)state;
  refuses = false;
  usleep(1100000); /* the system is asked once in a second */
  assert_true(purger_is_unheard());
  hak_free(hak_malloc(MIB));
  assert_int_not_equal(atomic_load(&purger_helper), HELPER_NONE);
}

static void grow(size_t begin, size_t end) {
  for (size_t i = begin; i < end; i++) {
    assert_non_null(blocks[i] = hak_malloc(SIZE));
    memset(blocks[i], 1, SIZE);
  }
}

static void free_most(void) {
  assert_int_equal(atomic_load(&purger_helper), HELPER_RUNS);
  free_up_to(COUNT / 2);
  assert_false(release_has_beats());
  assert_false(purger_is_unheard());
}

/* Another thread does, say. It takes the helper that is being started for one that knows. */
static void what_is_freed_while_it_is_tried_gets_beats(void **state) {
  (void)state;
  meanwhile = free_most;
  grow(0, COUNT);
  assert_int_equal(asked, 1);
  assert_true(release_has_beats());
}

static void drop_beats(void) {
  assert_int_equal(atomic_load(&purger_helper), HELPER_RUNS);
  release_request_beats();
  release_beat(0);
  assert_false(release_has_beats());
}

static void beats_that_end_for_it_are_requested_again(void **state) {
  (void)state;
  meanwhile = drop_beats;
  usleep(1100000);
  hak_free(hak_malloc(12 * MIB));
  assert_int_equal(asked, 2);
  assert_true(release_has_beats());
}

static int write_none(enum box_reason reason, size_t resident, size_t limit) {
  (void)reason, (void)resident, (void)limit;
  return 0;
}

/* Without release the helper is there for black boxes alone. */
static void nothing_goes_back_where_it_is_to_write_boxes(void **state) {
  (void)state;
  SET_OPTION(WARM_POOL_DECAY_MS, 0);
  SET_OPTION(BLACKBOX, 1);
  box_write = write_none;
  release_call();
  assert_true(purger_is_unheard());
  void *block = hak_malloc(12 * MIB);
  assert_non_null(block);
  assert_int_equal(asked, 1);
  assert_false(purger_is_unheard());
  assert_false(release_has_beats());
  hak_free(block);
}

static int start(void **state) {
  (void)state;
  options_at_start();
  SET_OPTION(BACKGROUND, BACKGROUND_ALWAYS);
  SET_OPTION(WARM_POOL_DECAY_MS, 1000000); /* nothing goes back meanwhile */
  return 0;
}

static atomic_bool rests_on = true;

static void *rest(void *argument) {
  while (atomic_load(&rests_on)) usleep(1000);
  return argument;
}

/* Each refill would ask the kernel for the program's threads, for ever. */
static void no_huge_pages_are_owed_where_no_helper_may_come(void **state) {
  (void)state;
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, rest, NULL), 0);
  assert_true(is_refused());
  atomic_store(&collapse_owed, 1);
  release_growth_collapse();
  assert_int_equal(atomic_load(&collapse_owed), 0);
  atomic_store(&rests_on, false);
  pthread_join(thread, NULL);
}

int main(int argc, char **argv) {
  const struct CMUnitTest much[] = {
      cmocka_unit_test(much_is_worth_beats_at_once),
      cmocka_unit_test(no_large_block_looks_at_the_stack_in_vain),
  };
  if (argc == 2 && strcmp(argv[1], "much") == 0)
    return cmocka_run_group_tests_name("much at once", much, start, NULL);
  const struct CMUnitTest tried[] = {
      cmocka_unit_test(what_is_freed_while_it_is_tried_gets_beats),
      cmocka_unit_test(beats_that_end_for_it_are_requested_again),
  };
  if (argc == 2 && strcmp(argv[1], "tried") == 0)
    return cmocka_run_group_tests_name("while it is tried", tried, start, NULL);
  const struct CMUnitTest boxes[] = {
      cmocka_unit_test(nothing_goes_back_where_it_is_to_write_boxes),
  };
  if (argc == 2 && strcmp(argv[1], "boxes") == 0)
    return cmocka_run_group_tests_name("boxes without release", boxes, start, NULL);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(only_much_is_worth_a_beat),
      cmocka_unit_test(no_huge_pages_are_owed_where_no_helper_may_come),
      cmocka_unit_test(one_that_starts_is_told),
  };
  return cmocka_run_group_tests_name("a helper that is refused", tests, start, NULL);
}
