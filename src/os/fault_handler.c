/* fault_handler.c - see fault_handler.h. */
#define _GNU_SOURCE
#include "os/fault_handler.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <ucontext.h>

static struct sigaction before;
static _Atomic(os_fault_body *) body;

static bool is_write(const void *context, bool *knows) {
#if defined(__x86_64__)
  enum { ERROR_CODE = 19, WRITE = 2 }; /* REG_ERR; the bit of a page fault's code */
  *knows = true;
  return (((const ucontext_t *)context)->uc_mcontext.gregs[ERROR_CODE] & WRITE) != 0;
#else
  (void)context;
  *knows = false;
  return false;
#endif
}

/* What would have happened without us. */
static void as_before(int number, siginfo_t *info, void *context) {
  if ((before.sa_flags & SA_SIGINFO) != 0) {
    before.sa_sigaction(number, info, context);
  } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
    before.sa_handler(number);
  } else { /* the instruction is tried again, or a sent signal comes again */
    struct sigaction none = {.sa_handler = SIG_DFL};
    (void)sigaction(number, &none, NULL);
    if (info->si_code <= 0) (void)raise(number);
  }
}

static void on_signal(int number, siginfo_t *info, void *context) {
  int saved = errno;
  os_fault_body *what = atomic_load(&body);
  bool knows, write = is_write(context, &knows);
  bool handled = what != NULL && info->si_code > 0 && what(info->si_addr, knows, write);
  errno = saved;
  if (!handled) as_before(number, info, context);
}

void os_catch_faults(os_fault_body *what) {
  int saved = errno;
  struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_ONSTACK};
  sigemptyset(&action.sa_mask);
  atomic_store(&body, what);
  if (sigaction(SIGSEGV, NULL, &before) == 0) (void)sigaction(SIGSEGV, &action, NULL);
  errno = saved;
}
