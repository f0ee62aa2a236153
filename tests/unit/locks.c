/* locks.c - a wake-up that reaches a thread which has no use for it: somebody else gets it, nobody sleeps for ever. */
#include "unit_test.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include "os/lock.h"

enum { ROUNDS = 100, ROUNDS_MOST = 5000, INTERRUPTIONS = 20, END_MS = 20000 };

static struct lock lock;
static atomic_bool has_ended;
static atomic_int stage; /* how far the threads of a round are */

static void wait_for_stage(int wanted) {
  while (atomic_load(&stage) < wanted) sched_yield();
}

static bool waits_until(atomic_bool *flag) {
  for (uint64_t start = os_clock_ms(); !atomic_load(flag);) {
    if (os_clock_ms() - start > END_MS) return false;
    usleep(50);
  }
  return true;
}

static pthread_t start(void *(*body)(void *)) {
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, body, NULL), 0);
  return thread;
}

/* Until somebody sleeps for the lock, in all likelihood. */
static void wait_for_sleeper(void) {
  while ((atomic_load(&lock.state) & LOCK_WAITERS) == 0) sched_yield();
  usleep(1000);
}

/* --- a sleeper that a signal handler interrupts --------------------------------------------------------------------- */

static pthread_t interrupted;
static atomic_int interruptions, too_late;

/* As a handler that forks. What it waits for is a lock that the other sleeper holds. */
static void on_signal(int number) {
  (void)number;
  int saved = errno;
  if (lock_holder(&lock) == LOCK_OTHERS) {
    lock_pass_wake_on();
    atomic_fetch_add(&interruptions, 1);
    if (!waits_until(&has_ended)) atomic_fetch_add(&too_late, 1);
  }
  errno = saved;
}

static void *sleep_first(void *unused) {
  lock_acquire(&lock);
  lock_release(&lock);
  return unused;
}

static void *sleep_first_for_fork(void *unused) {
  uint32_t patience_ms = LOCK_PATIENCE_MS;
  lock_acquire_for_fork(&lock, &patience_ms, false);
  lock_release_after_fork(&lock);
  return unused;
}

static void *sleep_second(void *unused) {
  atomic_store(&stage, 1);
  wait_for_stage(2);
  lock_acquire(&lock);
  lock_release(&lock);
  atomic_store(&has_ended, true);
  return unused;
}

static void interrupt(void *(*first)(void *)) {
  struct sigaction action = {.sa_handler = on_signal}, before;
  sigaction(SIGUSR1, &action, &before);
  atomic_store(&interruptions, 0);
  /* In how many rounds the signal is early enough is a matter of chance. */
  for (int i = 0; i < ROUNDS_MOST && atomic_load(&interruptions) < INTERRUPTIONS; i++) {
    atomic_store(&stage, 0);
    atomic_store(&has_ended, false);
    lock_acquire(&lock);
    interrupted = start(first);
    wait_for_sleeper();
    pthread_t other = start(sleep_second);
    /* A sanitizer takes locks of its own when a thread starts or ends, where the signal may interrupt the first one. */
    wait_for_stage(1);
    atomic_store(&stage, 2);
    usleep(1000);
    /* The one that sleeps longest is woken. The signal comes before it runs, or it has ended. */
    lock_release(&lock);
    pthread_kill(interrupted, SIGUSR1);
    pthread_join(interrupted, NULL);
    pthread_join(other, NULL);
    assert_int_equal(atomic_load(&too_late), 0);
  }
  assert_int_equal(atomic_load(&interruptions), INTERRUPTIONS);
  sigaction(SIGUSR1, &before, NULL);
}

static void an_interrupted_sleeper_passes_its_wake_on(void **state) {
  (void)state;
  interrupt(sleep_first);
}

/* Whose handler, which is not in the allocator's code, allocates. */
static void a_fork_that_sleeps_passes_its_wake_on(void **state) {
  (void)state;
  interrupt(sleep_first_for_fork);
}

/* --- a release in turn ----------------------------------------------------------------------------------------------- */

static void *take_in_turn(void *unused) {
  lock_acquire(&lock);
  atomic_store(&stage, 1);
  /* The other one sleeps now, and the releaser still waits for its turn. */
  for (uint64_t i = 0; i < 20000; i++) __asm__ volatile("" ::: "memory");
  lock_release(&lock);
  return unused;
}

static void *come_late(void *unused) {
  wait_for_stage(1);
  lock_acquire(&lock);
  lock_release(&lock);
  atomic_store(&has_ended, true);
  return unused;
}

static void a_release_in_turn_takes_no_sleepers_wake(void **state) {
  (void)state;
  for (int i = 0; i < ROUNDS; i++) {
    atomic_store(&stage, 0);
    atomic_store(&has_ended, false);
    lock_acquire(&lock);
    pthread_t first = start(take_in_turn), late = start(come_late);
    wait_for_sleeper();
    lock_release_in_turn(&lock);
    lock_acquire(&lock);
    lock_release(&lock);
    pthread_join(first, NULL);
    assert_true(waits_until(&has_ended));
    pthread_join(late, NULL);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_interrupted_sleeper_passes_its_wake_on),
      cmocka_unit_test(a_fork_that_sleeps_passes_its_wake_on),
      cmocka_unit_test(a_release_in_turn_takes_no_sleepers_wake),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
