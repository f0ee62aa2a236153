/* trace_signals.c - see trace_signals.h. */
#define _GNU_SOURCE
#include "trace_signals.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "trace_memory.h"

struct trace_signals trace_signals;

static void on_child_signal(int number) {
  (void)number;
  int saved = errno;
  trace_memory_notice(trace_signals.common);
  errno = saved;
}

static void do_nothing(int number) { (void)number; }

/* A file that grows beyond `ulimit -f`, and a message to a pipe that is closed, are failed writes. A handler, since the
 * program would inherit that the signal is ignored; it does where it was before. */
static void outlive(int number) {
  struct sigaction action;
  if (sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_DFL)
    signal(number, do_nothing);
}

/* What is sent to the recorder is meant for the program. What the terminal sends, the program has got itself. */
static void on_signal(int number, siginfo_t *info, void *context) {
  (void)context;
  int saved = errno;
  pid_t child = trace_signals.child;
  if (child == 0 && (number == SIGUSR1 || number == SIGUSR2)) {
    /* The program's own, and it has ended. */
  } else if (child == 0) {
    trace_signals.end_asked = 1;
    trace_memory_notice(trace_signals.common);
  } else if (info->si_code <= 0 && child > 0) {
    kill(child, number);
  }
  errno = saved;
}

static const int passed_on[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
enum { PASSED_ON = sizeof passed_on / sizeof passed_on[0] };

void trace_signals_outlive(void) {
  outlive(SIGXFSZ);
  outlive(SIGPIPE);
}

void trace_signals_handle(struct trace_common *common) {
  trace_signals.common = common;
  trace_signals.child = -1; /* nobody yet */
  struct sigaction action = {.sa_flags = SA_RESTART};
  sigemptyset(&action.sa_mask);
  action.sa_handler = on_child_signal;
  sigaction(SIGCHLD, &action, NULL);
  action.sa_flags |= SA_SIGINFO;
  action.sa_sigaction = on_signal;
  for (size_t i = 0; i < PASSED_ON; i++) {
    struct sigaction before;
    if (sigaction(passed_on[i], NULL, &before) != 0 || before.sa_handler == SIG_IGN) continue;
    sigaction(passed_on[i], &action, NULL);
  }
}

void trace_signals_hold(sigset_t *before) {
  sigset_t held;
  sigemptyset(&held);
  for (size_t i = 0; i < PASSED_ON; i++) sigaddset(&held, passed_on[i]);
  sigprocmask(SIG_BLOCK, &held, before);
}

/* The recorder's; it may have been started with SIGCHLD held. */
void trace_signals_release(const sigset_t *before) {
  sigset_t child_ended;
  sigprocmask(SIG_SETMASK, before, NULL);
  sigemptyset(&child_ended);
  sigaddset(&child_ended, SIGCHLD);
  sigprocmask(SIG_UNBLOCK, &child_ended, NULL);
}

/* The program's: as they were without the recorder. What came meanwhile reaches it now. */
void trace_signals_restore(const sigset_t *before) {
  for (size_t i = 0; i < PASSED_ON; i++) {
    struct sigaction action;
    if (sigaction(passed_on[i], NULL, &action) != 0 || action.sa_handler == SIG_IGN) continue;
    signal(passed_on[i], SIG_DFL);
  }
  sigprocmask(SIG_SETMASK, before, NULL);
}
