/* lock.c - the lock of one word: src/os/lock.c under all schedules, with sleeps that end early and signals.
 *
 * Whatever the order: one thread at most is inside, with what the one before it wrote; nobody sleeps for ever; the lock is free at
 * the end. What a fork's child would take for whole has nobody inside at that moment. (A waiting thread looks at the lock once
 * before it sleeps: CMakeLists.txt.)
 */
#include <string.h>

#include "os/futex.h"
#include "os/lock.h"
#include "schedule.h"

static struct lock lock;
static unsigned inside, sections;
static _Atomic uint32_t first_has_ended, step;

/* --- steps of a thread -------------------------------------------------------------------------------- */

static void section(void) {
  SCHEDULE_CHECK(inside == 0);
  inside++;
  (void)atomic_load_explicit(&step, memory_order_relaxed); /* others may run here */
  SCHEDULE_CHECK(inside == 1);
  inside--;
  sections++;
}

static void hold(void) {
  lock_acquire(&lock);
  section();
  lock_release(&lock);
}

static void hold_twice(void) {
  hold();
  hold();
}

static void try_to_hold(void) {
  if (!lock_try(&lock)) return;
  section();
  lock_release(&lock);
}

static void hold_in_turn(void) {
  lock_acquire(&lock);
  section();
  lock_release_in_turn(&lock);
  lock_acquire(&lock);
  section();
  lock_release(&lock);
}

static void hold_and_tell(void) {
  hold();
  atomic_store_explicit(&first_has_ended, 1, memory_order_relaxed);
  (void)futex_wake(&first_has_ended, 1);
}

/* --- fork ------------------------------------------------------------------------------------------------ */

/* Memory is copied: the word and what it guards at one moment. Not an access of the thread's. */
__attribute__((no_sanitize("thread"))) static void copy_memory(void) {
  uint32_t word;
  memcpy(&word, (const void *)&lock, sizeof word);
  bool whole = (word & ~LOCK_FLAGS) == lock_self() && (word & LOCK_FOR_FORK) != 0;
  SCHEDULE_CHECK(!whole || inside == 0);
}

static void fork_and(bool enters, bool waits_for_first) {
  uint32_t patience = 1;
  lock_acquire_for_fork(&lock, &patience, false);
  copy_memory();
  if (enters) hold(); /* a handler of another library allocates */
  (void)atomic_load_explicit(&step, memory_order_relaxed);
  copy_memory();
  /* libc's locks are one of these threads': it has to end first. */
  while (waits_for_first && atomic_load_explicit(&first_has_ended, memory_order_relaxed) == 0)
    (void)futex_wait(&first_has_ended, 0, (const struct timespec *)NULL);
  lock_release_after_fork(&lock);
}

static void forks(void) { fork_and(false, false); }
static void forks_and_holds(void) {
  fork_and(false, false);
  hold();
}
static void forks_and_enters(void) { fork_and(true, false); }
static void forks_and_waits(void) { fork_and(true, true); }

/* What it writes without being inside others see as well. (No time passes: nobody takes it away.) */
static void forks_and_keeps(void) {
  uint32_t patience = 1;
  lock_acquire_for_fork(&lock, &patience, false);
  if (lock_keep_for_fork(&lock)) section();
  lock_release_after_fork(&lock);
}

/* Between the fork's own handlers it changes what the lock guards. Who needs the lock takes it away later. */
static void forks_keeps_and_waits(void) {
  uint32_t patience = 1;
  lock_acquire_for_fork(&lock, &patience, false);
  if (lock_keep_for_fork(&lock)) hold();
  copy_memory();
  while (atomic_load_explicit(&first_has_ended, memory_order_relaxed) == 0)
    (void)futex_wait(&first_has_ended, 0, (const struct timespec *)NULL);
  lock_release_after_fork(&lock);
}

/* Gives up where another holds it: then the child has no whole lock, and nothing to release. */
static void forks_without_patience(void) {
  uint32_t patience = 1;
  lock_acquire_for_fork(&lock, &patience, true);
  copy_memory();
  lock_release_after_fork(&lock);
}

/* --- before and after --------------------------------------------------------------------------------- */

static void start(void) {
  memset((void *)&lock, 0, sizeof lock);
  inside = sections = 0;
  atomic_store_explicit(&first_has_ended, 0, memory_order_relaxed);
}

static void all_out(void) {
  SCHEDULE_CHECK(inside == 0);
  SCHEDULE_CHECK(atomic_load_explicit(&lock.state, memory_order_relaxed) == 0);
}

static void end_1(void) {
  all_out();
  SCHEDULE_CHECK(sections == 1);
}
static void end_3(void) {
  all_out();
  SCHEDULE_CHECK(sections == 3);
}
static void end_4(void) {
  all_out();
  SCHEDULE_CHECK(sections == 4);
}

static const struct schedule_case cases[] = {
    {.name = "two_hold", .start = start, .body = {hold_twice, hold}, .end = end_3, .stale = 1},
    {.name = "with_signals",
     .start = start,
     .body = {hold_twice, hold},
     .end = end_3,
     .signals = 1},
    {.name = "one_tries",
     .start = start,
     .body = {hold_twice, try_to_hold},
     .end = all_out,
     .stale = 2},
    {.name = "in_turn",
     .start = start,
     .body = {hold_in_turn, hold},
     .end = end_3,
     .timeouts = 1,
     .stale = 1},
    {.name = "fork",
     .start = start,
     .body = {hold, forks},
     .end = end_1,
     .timeouts = 2,
     .stale = 1},
    {.name = "fork_and_hold",
     .start = start,
     .body = {hold, forks_and_holds},
     .end = all_out,
     .timeouts = 2},
    {.name = "fork_enters",
     .start = start,
     .body = {hold, forks_and_enters},
     .end = all_out,
     .timeouts = 1},
    {.name = "fork_needs_the_other",
     .start = start,
     .body = {hold_and_tell, forks_and_waits},
     .end = all_out,
     .timeouts = 2},
    {.name = "fork_gives_up",
     .start = start,
     .body = {hold, forks_without_patience},
     .end = all_out,
     .timeouts = 2,
     .stale = 1},
    {.name = "fork_keeps", .start = start, .body = {hold, forks_and_keeps}, .end = all_out},
    {.name = "fork_keeps_and_needs_the_other",
     .start = start,
     .body = {hold_and_tell, forks_keeps_and_waits},
     .end = all_out,
     .timeouts = 3},
    {.name = "two_forks",
     .start = start,
     .body = {forks_and_enters, forks},
     .end = all_out,
     .timeouts = 2,
     .slow = true},
    {.name = "two_hold_twice",
     .start = start,
     .body = {hold_twice, hold_twice},
     .end = end_4,
     .stale = 1,
     .slow = true},
    {.name = "fork_enters.long",
     .start = start,
     .body = {hold, forks_and_enters},
     .end = all_out,
     .timeouts = 2,
     .slow = true},
    {.name = "three_hold",
     .start = start,
     .body = {hold, hold, hold},
     .end = end_3,
     .preemptions = 4,
     .slow = true},
    {.name = "three_in_turn",
     .start = start,
     .body = {hold_in_turn, hold, hold},
     .end = end_4,
     .preemptions = 2,
     .timeouts = 1,
     .slow = true},
    {.name = "fork_two_wait",
     .start = start,
     .body = {hold_and_tell, hold, forks_and_waits},
     .end = all_out,
     .preemptions = 3,
     .timeouts = 1,
     .slow = true},
    {.name = NULL}};

static const struct schedule_mutant mutants[] = {
    {"two_hold", "lock_acquire", "compare", FAULT_RELAXED, "race"},
    {"two_hold", "lock_acquire", "compare", FAULT_TORN, "race"},
    {"two_hold", "lock_release", "compare", FAULT_RELAXED, "race"},
    {"two_hold", "lock_release", "compare", FAULT_TORN, "deadlock"},
    {"two_hold", "change", "compare", FAULT_RELAXED, "race"},
    {"two_hold", "change", "compare", FAULT_TORN, "race"},
    {"two_hold", "lock_release_slow", "store", FAULT_RELAXED, "race"},
    {"two_hold", "wake", "wake", FAULT_DROPPED, "deadlock"},
    {"in_turn", "lock_release_in_turn", "store", FAULT_RELAXED, "race"},
    {"in_turn", "lock_release_in_turn", "wake", FAULT_DROPPED, "deadlock"},
    {"fork_enters", "leave", "and", FAULT_RELAXED, "race"},
    {"fork_needs_the_other", "leave", "and", FAULT_DROPPED, "may never end"},
    {"fork_keeps_and_needs_the_other", "lock_keep_for_fork", "compare", FAULT_TORN, "race"},
    {"fork_keeps", "lock_release_after_fork", "compare", FAULT_RELAXED, "race"},
    {"fork_and_hold", "lock_release_after_fork", "compare", FAULT_UNCOMPARED, "race"},
    {"fork_two_wait", "lock_acquire_for_fork", "wake", FAULT_DROPPED, "deadlock"},
    {.in_case = NULL}};

int main(int count, char **arguments) { return schedule_main(count, arguments, cases, mutants); }
