/* lock.h - a mutual-exclusion lock of one word that sleeps in the kernel when it has to wait.
 *
 * Own code rather than pthread_mutex_t for two reasons: a word of zeros is a free lock (no
 * initialiser to run before the first malloc), and the child of a fork can set every lock free
 * again. The algorithm is the three-state futex mutex of U. Drepper, "Futexes Are Tricky" (2011).
 *
 * While a thread forks it holds every lock of the library (api/fork.c). Handlers of other libraries
 * run inside that window and may allocate: for that thread, and only for it, acquire and release do
 * nothing, since it already holds everything.
 */
#ifndef HAK_OS_LOCK_H
#define HAK_OS_LOCK_H

#include "os/os.h"

/* 0 free, 1 held, 2 held and somebody may be asleep on it. */
struct lock {
  _Atomic uint32_t state;
};

/* The thread that holds all locks around fork (lock_self()), 0 when nobody forks. */
extern _Atomic uintptr_t lock_forking_thread;

/** A number that no other living thread has. */
uintptr_t lock_self(void);

void lock_wait(struct lock *lock); /* slow half of lock_acquire */
void lock_wake(struct lock *lock); /* slow half of lock_release */

HAK_INLINE bool lock_is_mine_by_fork(void) {
  /* relaxed: the value equals our own number only if this very thread stored it */
  uintptr_t thread = atomic_load_explicit(&lock_forking_thread, memory_order_relaxed);
  return HAK_UNLIKELY(thread != 0) && thread == lock_self();
}

/** True when the lock was free and is now held by the caller. */
HAK_INLINE bool lock_try(struct lock *lock) {
  if (lock_is_mine_by_fork()) return true;
  uint32_t free_state = 0;
  /* acquire: what the last holder wrote is seen by the new one */
  return atomic_compare_exchange_strong_explicit(&lock->state, &free_state, 1, memory_order_acquire,
                                                 memory_order_relaxed);
}

HAK_INLINE void lock_acquire(struct lock *lock) {
  if (HAK_UNLIKELY(!lock_try(lock))) lock_wait(lock);
}

HAK_INLINE void lock_release(struct lock *lock) {
  if (lock_is_mine_by_fork()) return;
  /* release: pairs with the acquire of the next holder */
  if (HAK_UNLIKELY(atomic_exchange_explicit(&lock->state, 0, memory_order_release) == 2))
    lock_wake(lock);
}

/** For a lock that others are about to see for the first time: free, unless this thread is forking; it
 * then counts as holding every lock, this one too. */
HAK_INLINE void lock_init(struct lock *lock) {
  atomic_store_explicit(&lock->state, lock_is_mine_by_fork() ? 1 : 0, memory_order_relaxed);
}

/** Sets a lock free whoever held it. Only for the child of a fork, where no other thread exists. */
HAK_INLINE void lock_reset(struct lock *lock) {
  atomic_store_explicit(&lock->state, 0, memory_order_relaxed);
}

#endif
