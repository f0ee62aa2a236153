/* stopped.h - all threads of another process, stopped for a moment. */
#ifndef HAKMEM_STOPPED_H
#define HAKMEM_STOPPED_H

#include <stdbool.h>
#include <stddef.h>

struct stopped_thread {
  int number;
  int signal; /* that it gets when it goes on; 0: none */
};

struct stopped {
  struct stopped_thread *threads;
  size_t count, room;
};

/** Stops them as a debugger does, without a signal: a call of the system that waits goes on afterwards, but for those that
 * signal(7) names, which end with EINTR as after SIGSTOP. False: it cannot be, `errno` says why (EBUSY: one waits in the kernel and does not stop
 * within a second). */
bool stopped_begin(struct stopped *stopped, int process);
/** Lets them go. They go by themselves when this program ends. */
void stopped_end(struct stopped *stopped);

#endif
