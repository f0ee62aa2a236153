/* explorer.h - what the files of the explorer have in common; schedule.h says which does what. */
#ifndef SCHEDULE_EXPLORER_H
#define SCHEDULE_EXPLORER_H

#include "schedule.h"
#include "site.h"

enum what { DO_LOAD, DO_STORE, DO_CHANGE, DO_SWAP, DO_FENCE, DO_SLEEP, DO_WAKE, DO_YIELD };

/* What a thread is about to do next; it waits for its turn with it. */
struct request {
  enum what what;
  uintptr_t address; /* 0: concerns no word */
  uint8_t size;
  bool weak, timed, all;
  int order, failure;
  enum schedule_change how;
  uint64_t value, expected;
  struct schedule_site *site;
  /* What came of it. */
  uint64_t result;
  bool done;
  enum schedule_sleep slept;
};

struct thread {
  void *stack_pointer;
  uintptr_t pointer; /* to its thread-local variables */
  bool ended, sleeps, yielded;
  uint8_t stale, spurious, timeouts, signals; /* left of the case's */
  struct request request;
};

extern struct thread threads[SCHEDULE_THREADS];
extern unsigned thread_count;
extern int running; /* -1: the explorer, or a case that starts or ends */

/* --- threads.c ------------------------------------------------------------------------------------ */

void threads_prepare(void);
/** Threads at the start of their bodies, with thread-local variables as a new thread has them. */
void threads_start(const struct schedule_case *from);
/** Runs one from where it is until its next request, or its end. */
void thread_go_on(unsigned thread);
/** In a thread: lets the explorer choose. Returns when the request is done. */
void thread_wait(void);
/** Is the address on the running thread's stack? */
bool thread_owns(uintptr_t address);
/** After a crash inside a thread: the explorer's own variables again. */
void threads_leave(void);

/* --- memory.c ------------------------------------------------------------------------------------- */

void memory_reset(void);
/** Does what the thread asked for. `alone`: nothing else can happen, so time passes. */
void memory_do(unsigned thread, bool alone);
/** Do the two lead to the same, whichever comes first? */
bool memory_is_independent(const struct request *one, const struct request *other);
/** How far `thread` knows of what `of` did. */
uint32_t memory_clock(unsigned thread, unsigned of);

/* --- races.c -------------------------------------------------------------------------------------- */

void races_reset(void);
void races_access(unsigned thread, uintptr_t address, size_t bytes, bool write, bool atomic);

/* --- explore.c ------------------------------------------------------------------------------------ */

struct mutant {
  const char *function, *operation;
  int line; /* instead, with the file as `function`; 0: no */
  enum schedule_fault fault;
};

struct outcome {
  uint64_t runs; /* to the end */
  uint64_t cut;  /* left early: every step left was one that had been tried in another order */
  uint64_t longest;
  bool failed;
  bool was_broken; /* the mutant's fault was come by */
  char why[512];
  char *replay;
};

/** Explores the case; stops at the first failure. `mutant`: NULL for none. `replay`: this run alone. */
struct outcome explore(const struct schedule_case *what, const struct mutant *mutant,
                       const char *replay);
/** Prints the steps of the last run. */
void explore_print(void);
/** One of `count` outcomes: 0 and up. */
unsigned explore_choose(unsigned count);
/** The mutant's fault, if this is where it lies. */
enum schedule_fault explore_fault(struct schedule_site *site, const char *operation, int order);
unsigned explore_step(void);
void explore_note(unsigned thread, const char *operation, int order,
                  const struct schedule_site *site, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/** All places that were come by, while the list was asked for. */
extern struct schedule_site *explore_sites;

#endif
