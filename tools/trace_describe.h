/* trace_describe.h - the two texts of a trace, and the clock that they tell of. */
#ifndef HAKMEM_TRACE_DESCRIBE_H
#define HAKMEM_TRACE_DESCRIBE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "trace_layer/shared.h"

struct trace_times {
  enum trace_clock clock;
  struct timespec started; /* of the day */
  double began;            /* seconds of the monotonic clock */
  double process_began;    /* the same, of the process */
  uint64_t began_ticks;
  uint64_t ticks_per_second;
  double seconds; /* from start to end */
};

struct trace_totals {
  uint64_t events, lost;
  uint32_t threads;
  int64_t started; /* processes; negative: not known */
  int status;      /* negative: not known */
};

/* Of a process that is not the program's first. */
struct trace_descent {
  pid_t parent;
  bool forked; /* without executing a program of its own */
};

/** Chooses the clock of the events and measures how fast it runs, which takes 10 ms. */
enum trace_clock trace_times_start(struct trace_times *times);

/** Begins the time of a process that started later; the clock's speed goes on being measured from the first start. */
void trace_times_start_later(struct trace_times *times);

/** Sets `seconds`, and measures `ticks_per_second` again. */
void trace_times_end(struct trace_times *times);

/* JSON; free() it. NULL: no memory, which they complain of. */
char *trace_describe_start(const struct trace_times *times, char **command, pid_t pid,
                           const struct trace_descent *descent);
char *trace_describe_end(const struct trace_times *times, const struct trace_totals *totals);

#endif
