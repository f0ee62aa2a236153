/* schedule.h - runs two or three threads of the library's own code in every order that their atomic operations can have.
 *
 * The sources are compiled as they are. shim/stdatomic.h and shim/os/futex.h come first on the include path and make each atomic
 * operation, fence, sleep and wake a point at which exactly one thread, chosen by the explorer, goes on. The explorer runs a case
 * again and again, and takes another choice each time, until there is none left. After loom and relacy, which do so for
 * Rust and C++, and CHESS (Musuvathi and others 2008), whose bound of preemptions a case of three threads may use.
 *
 *   threads.c  threads as coroutines, each with thread-local variables of its own
 *   memory.c   what an atomic operation does: a load may get what an older store wrote, where C11 allows that
 *   races.c    accesses that are not atomic, which have to be ordered by happens-before
 *   explore.c  which thread, and which of several outcomes; what is printed when something is wrong
 *   run.c      cases and mutants of a program, and its arguments
 *
 * What the model leaves out: stores become visible in the order in which the explorer runs them (no load sees the future), and
 * seq_cst orders a little more than C11 says: all such operations on all words are one sequence, each of which sees what
 * those before it had seen that were not loads. Accesses by the kernel, by asm and by functions of libc are not seen.
 */
#ifndef SCHEDULE_H
#define SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SCHEDULE_THREADS = 3 };

struct schedule_case {
  const char *name;
  void (*start)(void);                  /* makes everything as it is before the first step */
  void (*body[SCHEDULE_THREADS])(void); /* NULL: there are fewer */
  void (*end)(void);                    /* what has to be true when all have ended */
  /* Of each thread in one run: loads that get an older value, weak compare-and-swaps that fail without cause, sleeps that end
   * because time is over (more often only when nothing else can happen), and because a signal came. */
  uint8_t stale, spurious, timeouts, signals;
  /* Switches from a thread that could go on; 0: any number, and every order is run once but for such that differ in the
   * order of independent steps. */
  uint8_t preemptions;
  bool slow; /* only with --slow */
};

enum schedule_fault {
  FAULT_NONE,
  FAULT_RELAXED, /* the memory order is relaxed */
  FAULT_TORN,    /* a read-modify-write is a load and a store */
  FAULT_UNCOMPARED /* a compare-and-swap succeeds whatever is there */,
  FAULT_DROPPED /* not done at all; of what can fail, with success */
};

/* A case with one operation broken: it has to fail, and say `expected`. */
struct schedule_mutant {
  const char *in_case, *function, *operation; /* operation: as a step is printed */
  enum schedule_fault fault;
  const char *expected;
};

/** The program's main: explores all cases, then sees that each mutant fails. */
int schedule_main(int count, char **arguments, const struct schedule_case *cases,
                  const struct schedule_mutant *mutants);

/** Ends the run as a failed one. From a thread, or from a case's `end`. */
_Noreturn void schedule_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define SCHEDULE_CHECK(condition)                                                                  \
  ((condition) ? (void)0 : schedule_fail("%s:%d: not so: %s", __FILE__, __LINE__, #condition))

/** Which thread runs: 0 and up; -1: none, a case starts or ends. */
int schedule_thread(void);

/** Of these bytes no race is told: a program's error made it, and the code sees to it (a case says why). */
void schedule_excuse_races(const void *start, size_t bytes);

/** Ordinary accesses, as the compiler's calls report them, by hand: for what libc or the kernel would do. */
void schedule_plain_read(const void *address, size_t bytes);
void schedule_plain_write(const void *address, size_t bytes);

/** The thread has nothing to do before another one did something. */
void schedule_yield(void);

#endif
