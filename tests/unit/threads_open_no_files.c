/* threads_open_no_files.c - in a program with threads the helper opens files, which has descriptors to itself. Its other threads open one, before a
 * helper starts. */
#include "unit_test.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "heap/purger.h"
#include "os/file.h"
#include "policy/options.h"
#include "superslab/collapse.h"

enum { SIZE = 3000, BLOCKS = 3 * HUGE_PAGES_FROM / SIZE };

static atomic_uint by_helper, by_others, looks;

int __real_os_file_open(const char *path, enum os_file_use use);
int __wrap_os_file_open(const char *path, enum os_file_use use); /* the linker calls it so */
int __wrap_os_file_open(const char *path, enum os_file_use use) {
  if (os_thread() == atomic_load(&purger_helper_thread)) atomic_fetch_add(&by_helper, 1);
  else if (strcmp(path, "/proc/thread-self/status") == 0) atomic_fetch_add(&looks, 1);
  else {
    print_message("opened: %s\n", path);
    atomic_fetch_add(&by_others, 1);
  }
  return __real_os_file_open(path, use);
}

static void *blocks[BLOCKS];

/* A helper may come late on a busy machine; without a second thread it would not come any more. */
static void wait_for_helper(void) {
  for (int i = 0; i < 10000 && atomic_load(&by_helper) == 0; i++) usleep(1000);
}

static void *grow(void *argument) {
  for (size_t i = 0; i < BLOCKS; i++) {
    blocks[i] = hak_malloc(SIZE);
    if (blocks[i] == NULL) return NULL;
    memset(blocks[i], 1, SIZE);
  }
  wait_for_helper();
  return argument;
}

static void only_the_helper_opens_files(void **state) {
  (void)state;
  pthread_t thread;
  void *grown;
  atomic_store(&by_others, 0); /* of the start, with one thread */
  assert_int_equal(pthread_create(&thread, NULL, grow, blocks), 0);
  assert_int_equal(pthread_join(thread, &grown), 0);
  assert_non_null(grown);
  assert_int_equal(atomic_load(&by_others), 0);
  print_message("looks before a helper starts: %u\n", atomic_load(&looks));
}

/* Groups, and where early SuperSlabs become huge pages. */
static void it_has_read_what_others_asked_for(void **state) {
  (void)state;
  assert_int_not_equal(atomic_load(&purger_limit_due), RELEASE_MOST);
  assert_true(atomic_load(&by_helper) > 0);
}

static void *wait_for_debts(void *argument) {
  for (int i = 0; i < 10000 && atomic_load(&collapse_owed) > 0; i++) usleep(1000);
  return argument;
}

static void it_pays_what_growth_owes(void **state) {
  (void)state;
  pthread_t thread;
  if (option_value(SS_HUGEPAGE) != HUGEPAGE_THP) skip();
  /* A second thread, so that there is a helper; this one grows, which wakes it. */
  assert_int_equal(pthread_create(&thread, NULL, wait_for_debts, NULL), 0);
  for (int i = 0; i < 10000 && atomic_load(&collapse_owed) > 0; i++) {
    if (i % 100 == 0)
      for (int k = 0; k < 100; k++) assert_non_null(hak_malloc(SIZE));
    usleep(1000);
  }
  assert_int_equal(pthread_join(thread, NULL), 0);
  assert_int_equal(atomic_load(&collapse_owed), 0);
  assert_int_equal(atomic_load(&by_others), 0);
}

static int start(void **state) {
  (void)state;
  options_at_start();
  SET_OPTION(BACKGROUND, BACKGROUND_AUTO);
  SET_OPTION(PROF_RATE, 100000);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(only_the_helper_opens_files),
      cmocka_unit_test(it_has_read_what_others_asked_for),
      cmocka_unit_test(it_pays_what_growth_owes),
  };
  return cmocka_run_group_tests_name("threads open no files", tests, start, NULL);
}
