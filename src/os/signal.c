/* signal.c - the one signal that a user may ask the library to catch. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <strings.h>

#include "os/os.h"

static const struct {
  char name[8];
  int number;
} names[] = {{"USR1", SIGUSR1},   {"USR2", SIGUSR2}, {"HUP", SIGHUP}, {"QUIT", SIGQUIT},
             {"ALRM", SIGALRM},   {"URG", SIGURG},   {"IO", SIGIO},   {"PWR", SIGPWR},
             {"WINCH", SIGWINCH}, {"PROF", SIGPROF}};

/* A handler that returned from these would be called again at once, or never. */
static bool can_be_caught(int number) {
  static const int others[] = {SIGKILL, SIGSTOP, SIGILL,  SIGTRAP, SIGABRT,
                               SIGBUS,  SIGFPE,  SIGSEGV, SIGSYS};
  for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
    if (number == others[i]) return false;
  /* Those below SIGRTMIN, which libc may put up, are its own. */
  return number > 0 && number <= SIGRTMAX && (number <= 31 || number >= SIGRTMIN);
}

int os_signal_number(const char *text) {
  int number = 0;
  const char *digit = text;
  for (; *digit >= '0' && *digit <= '9' && number < 1000; digit++)
    number = number * 10 + (*digit - '0');
  if (digit != text && *digit == 0) return can_be_caught(number) ? number : 0;
  if (strncasecmp(text, "SIG", 3) == 0) text += 3;
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    if (strcasecmp(text, names[i].name) == 0) return names[i].number;
  return 0;
}

static _Atomic(void (*)(void)) body;

HAK_AT_LOAD void os_on_signal(void (*what)(void)) { atomic_store(&body, what); }

static void on_signal(int number) {
  (void)number;
  int saved = errno;
  void (*what)(void) = atomic_load(&body);
  if (what != NULL) what();
  errno = saved;
}

bool os_catch_signal(int number) {
  int saved = errno;
  /* On another stack where the program has one; no other handler in between, which could allocate. */
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART | SA_ONSTACK}, before;
  sigfillset(&action.sa_mask);
  bool ok = sigaction(number, NULL, &before) == 0 &&
            (before.sa_handler == SIG_DFL || before.sa_handler == SIG_IGN) &&
            sigaction(number, &action, NULL) == 0;
  errno = saved;
  return ok;
}
