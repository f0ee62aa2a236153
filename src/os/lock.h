/* lock.h - a mutual-exclusion lock of one word that sleeps in the kernel when it has to wait.
 *
 * Own code rather than pthread_mutex_t for three reasons. A word of zeros is a free lock (no
 * initialiser to run before the first malloc). The child of a fork has to know whether what a lock
 * guards is whole. And a fork must not make others wait for it. The algorithm is the futex mutex with
 * a flag for sleepers of U. Drepper, "Futexes Are Tricky" (2011); the word names its holder beside.
 *
 * Fork. A thread that forks takes every lock (heap/fork.c), so that nothing is half done when memory is
 * copied. It holds them for the fork: it may enter what they guard, as handlers of other libraries make it, and
 * then somebody else may take a lock away from it. For libc takes locks of its own after ours (of stdio,
 * of the name service), whose holders may be in malloc and wait for us: without this all of them would wait for ever. A
 * lock that was taken away tells the child that what it guards is not whole, and the child goes on without that
 * (docs/architecture.md, fork).
 */
#ifndef HAK_OS_LOCK_H
#define HAK_OS_LOCK_H

#include "os/os.h"

/* 0: free. Else LOCK_HELD, some bits of the holder's address in between, and the flags. */
struct lock {
  _Atomic uint32_t state;
};

#define LOCK_HELD (UINT32_C(1) << 31)
#define LOCK_WAITERS UINT32_C(1)  /* somebody may be asleep on it */
#define LOCK_FOR_FORK UINT32_C(2) /* held by a thread that forks */
#define LOCK_INSIDE UINT32_C(4)   /* the same, and it is in what the lock guards just now */
#define LOCK_KEPT UINT32_C(8)     /* the same, and it is taken away only after LOCK_KEPT_MS */
#define LOCK_FLAGS (LOCK_WAITERS | LOCK_FOR_FORK | LOCK_INSIDE | LOCK_KEPT)

/* A lock that is held for a fork is taken away after so many milliseconds. A fork of a process of a GiB takes some 10 ms; what
 * would wait for ever pays this once. */
enum { LOCK_PATIENCE_MS = 20 };

/* The same of one that is kept for a fork: a thread that waits for it may have what libc's fork waits for all the same, as it purges
 * where memory is refused. A fork of some 100 GiB takes so long. */
enum { LOCK_KEPT_MS = 1000 };

/* The thread that holds the locks around fork (lock_self()), 0 when nobody forks. */
extern _Atomic uint32_t lock_forking_thread HAK_HIDDEN;

extern _Thread_local char lock_self_mark HAK_HIDDEN __attribute__((tls_model("initial-exec")));

/** What the word of a lock is while the calling thread holds it, without flags. No two threads whose stacks lie less than
 * 512 GiB apart have the same: each has pages of its own for its thread-local variables. */
HAK_INLINE uint32_t lock_self(void) {
  return LOCK_HELD | ((uint32_t)((uintptr_t)&lock_self_mark >> 12) << 4);
}

void lock_wait(struct lock *lock);         /* slow half of lock_acquire */
void lock_release_slow(struct lock *lock); /* slow half of lock_release */

/** True when the lock was free and is now held by the caller. */
bool lock_try(struct lock *lock);

HAK_INLINE void lock_acquire(struct lock *lock) {
  uint32_t free_state = 0;
  /* acquire: what the last holder wrote is seen by the new one */
  if (HAK_UNLIKELY(!atomic_compare_exchange_strong_explicit(
          &lock->state, &free_state, lock_self(), memory_order_acquire, memory_order_relaxed)))
    lock_wait(lock);
}

HAK_INLINE void lock_release(struct lock *lock) {
  /* release: pairs with the acquire of the next holder. It fails where somebody sleeps, and for a fork. */
  uint32_t state = lock_self();
  if (HAK_UNLIKELY(!atomic_compare_exchange_strong_explicit(
          &lock->state, &state, 0, memory_order_release, memory_order_relaxed)))
    lock_release_slow(lock);
}

/** Releases the lock for a caller who is about to take it again: a thread that sleeps for it has it in between. After
 * lock_release it would be held again before that thread is awake, piece after piece. */
void lock_release_in_turn(struct lock *lock);

/** For a lock that others are about to see for the first time: free, unless this thread is forking. */
HAK_INLINE void lock_init(struct lock *lock) {
  uint32_t self = lock_self();
  /* relaxed: the value equals our own number only if this very thread stored it */
  bool forks = atomic_load_explicit(&lock_forking_thread, memory_order_relaxed) == self;
  atomic_store_explicit(&lock->state, forks ? self | LOCK_FOR_FORK : 0, memory_order_relaxed);
}

/* --- around fork ---------------------------------------------------------------------------------- */

/** For functions that show all locks of a room, in their order. */
typedef void lock_visit(struct lock *lock, void *argument);

/** Is it anybody's? A hint. */
HAK_INLINE bool lock_is_taken(const struct lock *lock) {
  return atomic_load_explicit(&lock->state, memory_order_relaxed) != 0;
}

/* Whose it is, as far as the calling thread cares. */
enum lock_holder {
  LOCK_OTHERS,   /* free, or another thread's */
  LOCK_MINE,     /* the caller's, which is so in a signal handler that has interrupted it inside */
  LOCK_MY_FORKS, /* the caller's for its fork */
};

HAK_INLINE enum lock_holder lock_holder(const struct lock *lock) {
  /* relaxed: a word that names this thread is one that it wrote itself, or marked by a sleeper since */
  uint32_t state = atomic_load_explicit(&lock->state, memory_order_relaxed);
  if ((state & ~LOCK_FLAGS) != lock_self()) return LOCK_OTHERS;
  return (state & LOCK_FOR_FORK) == 0 ? LOCK_MINE : LOCK_MY_FORKS;
}

/** What the child of a fork does first, of which lock.c knows only when: before the forking thread waits for any lock there.
 * To be set before the locks are taken, and called again at the end of the fork. */
extern _Atomic(void (*)(void)) lock_settle_child HAK_HIDDEN;

/** For LOCK_KEPT_MS nobody takes away the lock that the calling thread holds for its fork. False: it does not hold it for that, or not any
 * more. */
bool lock_keep_for_fork(struct lock *lock);

/** Takes the lock for a fork, unless the calling thread holds it already. `*patience_ms` bounds for how long it waits for one
 * that another thread holds for a fork, which it then takes away; with `may_give_up` for any holder, and the lock may then
 * stay without. What was waited for in vain is taken off `*patience_ms`. */
void lock_acquire_for_fork(struct lock *lock, uint32_t *patience_ms, bool may_give_up);

/** For a signal handler, before it waits for any lock: when it has interrupted a thread that slept for one, another sleeper is
 * woken instead. */
void lock_pass_wake_on(void);

/** Sets a lock free that the calling thread holds for a fork; others stay as they are. */
void lock_release_after_fork(struct lock *lock);

/** In the child: sets the lock free, unless the calling thread was interrupted inside. False: some thread that the child
 * does not have may have been inside, what the lock guards is not to be trusted. */
bool lock_is_whole_in_child(struct lock *lock);

#endif
