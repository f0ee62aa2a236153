/* trace_signals.h - what signals mean to the recorder: most are meant for the program. */
#ifndef HAKMEM_TRACE_SIGNALS_H
#define HAKMEM_TRACE_SIGNALS_H

#include <signal.h>
#include <sys/types.h>

#include "trace_layer/shared.h"

/** What the handlers look at. */
struct trace_signals {
  struct trace_common *common; /* the recorder is woken there */
  volatile pid_t child;        /* the program; 0: it has ended, and the recorder itself is meant */
  volatile sig_atomic_t end_asked; /* a signal came that means the recorder */
};
extern struct trace_signals trace_signals;

/** Failed writes do not end the recorder. */
void trace_signals_outlive(void);

void trace_signals_handle(struct trace_common *common);

/** Around the fork that starts the program, since none of them may get lost: until the recorder knows the program, and the
 * program is no longer the recorder's copy. */
void trace_signals_hold(sigset_t *before);
void trace_signals_release(const sigset_t *before); /* in the recorder */
void trace_signals_restore(
    const sigset_t *before); /* in the program: as they were without the recorder */

#endif
