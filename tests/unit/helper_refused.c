/* helper_refused.c - where the system refuses the helper thread: from then on the program's own calls give back what it would.
 *
 * usage: helper_refused [much] */
#include "unit_test.h"

#include <string.h>
#include <unistd.h>

#include "heap/purger.h"
#include "release/beat.h"
#include "superslab/unit_os.h"

WITHOUT_SAMPLES;

enum { SIZE = 4 * KIB, COUNT = 8 * KIB, LITTLE = 128, MUCH = 768 };

static unsigned asked;
static bool refuses = true;

bool __real_os_thread_start(void (*body)(void));
bool __wrap_os_thread_start(void (*body)(void)); /* the linker calls it so */
bool __wrap_os_thread_start(void (*body)(void)) {
  asked++;
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

static int start(void **state) {
  (void)state;
  options_at_start();
  SET_OPTION(BACKGROUND, BACKGROUND_ALWAYS);
  SET_OPTION(WARM_POOL_DECAY_MS, 1000000); /* nothing goes back meanwhile */
  return 0;
}

int main(int argc, char **argv) {
  const struct CMUnitTest much[] = {
      cmocka_unit_test(much_is_worth_beats_at_once),
      cmocka_unit_test(no_large_block_looks_at_the_stack_in_vain),
  };
  if (argc == 2 && strcmp(argv[1], "much") == 0)
    return cmocka_run_group_tests_name("much at once", much, start, NULL);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(only_much_is_worth_a_beat),
      cmocka_unit_test(one_that_starts_is_told),
  };
  return cmocka_run_group_tests_name("a helper that is refused", tests, start, NULL);
}
