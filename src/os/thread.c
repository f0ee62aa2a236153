/* thread.c - the one thread that the library may start, and what it sleeps on. */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include "os/fault.h"
#include "os/futex.h"
#include "os/os.h"

/* Enough for the release engine and a large static TLS; only what is used takes memory. */
#define STACK_BYTES (256 * KIB)

static void *thread_main(void *body) {
#if defined(__GLIBC__)
  pthread_setname_np(pthread_self(), "hakmem");
#endif
  (*(void (**)(void))body)();
  return NULL;
}

bool os_thread_start(void (*body)(void)) {
  static void (*running)(void); /* one thread at a time */
  if (os_fault_now()) return false;
  int saved = errno;
  sigset_t all, before;
  pthread_attr_t attributes;
  pthread_t thread;
  running = body;
  if (pthread_attr_init(&attributes) != 0) return false;
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, STACK_BYTES);
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before); /* the new thread inherits it: no signal is for it */
  int error = pthread_create(&thread, &attributes, thread_main, (void *)&running);
  if (error == EINVAL) { /* the static TLS needs more */
    pthread_attr_setstacksize(&attributes, 8 * MIB);
    error = pthread_create(&thread, &attributes, thread_main, (void *)&running);
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
  errno = saved;
  return error == 0;
}

int os_process(void) { return (int)getpid(); }

void os_yield(void) { sched_yield(); }

void os_sleep_on(_Atomic uint32_t *word, uint32_t value, uint32_t ms) {
  int saved = errno;
  struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
  futex_wait(word, value, ms == OS_NO_TIMEOUT ? NULL : &time);
  errno = saved;
}

void os_wake(_Atomic uint32_t *word) {
  int saved = errno;
  futex_wake(word, 1);
  errno = saved;
}
