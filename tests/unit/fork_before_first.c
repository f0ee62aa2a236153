/* fork_before_first.c - a fork beside a thread that asks for statistics, in a process that has allocated nothing yet: the child
 * finds every lock free. */
#include "unit_test.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FORKS = 100 * MEETINGS }; /* 17 ms each under an emulator */
enum { SECONDS = 5 };

static atomic_bool stop;

static void *ask(void *unused) {
  struct hak_stats stats = {.size = sizeof stats};
  while (!atomic_load(&stop)) hak_stats_get(&stats);
  return unused;
}

static void children_can_allocate(void **state) {
  (void)state;
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, ask, NULL), 0);
  for (int i = 0; i < FORKS; i++) {
    pid_t child = fork();
    if (child == 0) {
      alarm(SECONDS);
      void *block = hak_malloc(10);
      hak_free(block);
      _exit(block != NULL ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
  }
  atomic_store(&stop, true);
  pthread_join(thread, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(children_can_allocate)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
