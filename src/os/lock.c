/* lock.c - the waiting half of lock.h. */
#define _GNU_SOURCE
#include "os/lock.h"

#include <errno.h>

#include "os/futex.h"

_Atomic uintptr_t lock_forking_thread;

static _Thread_local char self_mark;

uintptr_t lock_self(void) { return (uintptr_t)&self_mark; }

/* Sections under these locks are short (a refill: under a microsecond), so a short spin finds most
 * of them free again before a sleep would have started. */
enum { SPINS = 100 };

static void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

void lock_wait(struct lock *lock) {
  for (int i = 0; i < SPINS; i++) {
    uint32_t state = atomic_load_explicit(&lock->state, memory_order_relaxed);
    if (state == 0 && atomic_compare_exchange_strong_explicit(
                          &lock->state, &state, 1, memory_order_acquire, memory_order_relaxed))
      return;
    if (state == 2) break; /* others sleep already: join them */
    relax();
  }
  int saved = errno;
  /* acquire on the exchange that finds 0; a 2 left behind only costs one needless wake */
  while (atomic_exchange_explicit(&lock->state, 2, memory_order_acquire) != 0)
    futex_wait(&lock->state, 2, NULL);
  errno = saved;
}

void lock_wake(struct lock *lock) {
  int saved = errno;
  futex_wake(&lock->state);
  errno = saved;
}
