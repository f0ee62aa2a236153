/* lock.c - the waiting half of lock.h, and what fork needs. */
#define _GNU_SOURCE
#include "os/lock.h"

#include <limits.h>
#include <time.h>

#include "os/futex.h"

_Atomic uint32_t lock_forking_thread;
_Thread_local char lock_self_mark;
_Atomic(void (*)(void)) lock_settle_child HAK_START_DATA;

/* The lock for which the thread sleeps or slept just now, or which it releases. It may have got a wake, or owe one. When a signal
 * handler runs before it has acted on that, nobody else learns that the lock is free. */
static _Thread_local struct lock *slept_for __attribute__((tls_model("initial-exec")));

/* Sections under these locks are short (a refill: under a microsecond), so a short spin finds most
 * of them free again before a sleep would have started. */
enum { SPINS = 100 };

static void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#elif defined(__riscv)
  /* pause, which older assemblers have no name for; processors without it do nothing */
  __asm__ volatile(".4byte 0x0100000f");
#elif defined(__powerpc64__)
  __asm__ volatile("or 27, 27, 27"); /* yield */
#endif
}

static uint32_t look(const struct lock *lock) {
  return atomic_load_explicit(&lock->state, memory_order_relaxed);
}

/* acquire on success: as in lock_acquire. A thread that forks changes nothing before it is inside, and leaves by a release,
 * so whoever takes a lock away from it sees what the last one inside wrote. */
static bool change(struct lock *lock, uint32_t from, uint32_t to) {
  return atomic_compare_exchange_strong_explicit(&lock->state, &from, to, memory_order_acquire,
                                                 memory_order_relaxed);
}

/* Enters where that needs no waiting: the lock is free, or the thread's own for a fork, or the thread holds it and is dying. Then it is
 * its own as for a fork, for good. */
static bool enter(struct lock *lock, uint32_t state, uint32_t as) {
  if (state == 0) return change(lock, 0, as);
  if ((state & ~LOCK_FLAGS) != lock_self()) return false;
  if (HAK_UNLIKELY(os_dying))
    return change(lock, state, state | LOCK_FOR_FORK | LOCK_KEPT | LOCK_INSIDE);
  /* Another may be taking it away just now: of the two one succeeds. */
  return (state & LOCK_FOR_FORK) != 0 && change(lock, state, state | LOCK_INSIDE);
}

/* May fail for a lock that is the thread's own for a fork, when another marks it just now. */
bool lock_try(struct lock *lock) { return enter(lock, look(lock), lock_self()); }

static bool spin(struct lock *lock, uint32_t as) {
  for (int i = 0; i < SPINS; i++) {
    uint32_t state = look(lock);
    if (enter(lock, state, as)) return true;
    if ((state & LOCK_WAITERS) != 0) break; /* others sleep already: join them */
    relax();
  }
  return false;
}

/* Sleeps until the lock changes, at most `ms` milliseconds (OS_NO_TIMEOUT: without end). True: so long it did not. */
static bool sleep_on(struct lock *lock, uint32_t state, uint32_t ms) {
  uint32_t marked = state | LOCK_WAITERS;
  if (state != marked && !change(lock, state, marked)) return false;
  struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
  return futex_wait(&lock->state, marked, ms == OS_NO_TIMEOUT ? NULL : &time) == FUTEX_TIME_OVER;
}

void lock_pass_wake_on(void) {
  if (slept_for != NULL) (void)futex_wake(&slept_for->state, 1);
}

static uint32_t patience(uint32_t state) {
  return (state & LOCK_KEPT) != 0 ? LOCK_KEPT_MS : LOCK_PATIENCE_MS;
}

void lock_wait(struct lock *lock) {
  uint32_t self = lock_self();
  lock_pass_wake_on(); /* this is a handler's, if there is one */
  /* Handlers of other libraries may allocate in the child before ours runs. */
  if (atomic_load_explicit(&lock_forking_thread, memory_order_relaxed) == self)
    atomic_load_explicit(&lock_settle_child, memory_order_relaxed)();
  if (spin(lock, self)) return;
  struct lock *interrupted = slept_for;
  slept_for = lock;
  uint32_t waited_ms = 0; /* in vain, for one that is held for a fork */
  for (;;) {
    uint32_t state = look(lock);
    /* With LOCK_WAITERS, since others may sleep too; one that is left behind only costs a needless wake. */
    if (enter(lock, state, self | LOCK_WAITERS)) break;
    if (state == 0) continue;
    bool for_fork = (state & LOCK_FOR_FORK) != 0;
    bool may_take = for_fork && (state & LOCK_INSIDE) == 0 && waited_ms >= patience(state);
    if (may_take && change(lock, state, self | LOCK_WAITERS)) break;
    if (may_take) continue;
    bool in_vain = sleep_on(lock, state, for_fork ? LOCK_PATIENCE_MS : OS_NO_TIMEOUT);
    waited_ms = in_vain ? waited_ms + LOCK_PATIENCE_MS : 0;
  }
  slept_for = interrupted;
}

static void wake(struct lock *lock) { futex_wake(&lock->state, 1); }

/* release: as lock_release. The lock stays held for the fork. */
static void leave(struct lock *lock) {
  atomic_fetch_and_explicit(&lock->state, ~LOCK_INSIDE, memory_order_release);
}

/* Between the two steps a signal handler may run: what is owed to the sleepers is noted before. */
void lock_release_slow(struct lock *lock) {
  /* The holder alone changes anything but LOCK_WAITERS while it is inside. */
  if ((look(lock) & LOCK_FOR_FORK) != 0) {
    leave(lock);
    return;
  }
  struct lock *interrupted = slept_for;
  slept_for = lock;
  atomic_store_explicit(&lock->state, 0, memory_order_release); /* release: as lock_release */
  wake(lock);
  slept_for = interrupted;
}

/* It takes some 50 us until a thread that was woken is on a processor. To sleep for as long is better than to yield: that gives
 * the processor to whoever computes there, for milliseconds. */
void lock_release_in_turn(struct lock *lock) {
  static const struct timespec a_wake = {.tv_nsec = 50000};
  if ((look(lock) & (LOCK_FOR_FORK | LOCK_WAITERS)) != LOCK_WAITERS) {
    lock_release(lock);
    return;
  }
  struct lock *interrupted = slept_for;
  slept_for = lock;
  atomic_store_explicit(&lock->state, 0, memory_order_release); /* release: as lock_release */
  /* The wake that ends the wait is another's: whoever had the lock in between did not mean this thread. */
  if (futex_wake(&lock->state, 1) && futex_wait(&lock->state, 0, &a_wake) == FUTEX_WOKEN)
    (void)futex_wake(&lock->state, 1);
  slept_for = interrupted;
}

/* --- around fork ---------------------------------------------------------------------------------- */

void lock_acquire_for_fork(struct lock *lock, uint32_t *patience_ms, bool may_give_up) {
  uint32_t self = lock_self(), as = self | LOCK_FOR_FORK;
  struct lock *interrupted = slept_for;
  slept_for = lock;
  uint32_t kept_ms = LOCK_KEPT_MS;
  for (;;) {
    uint32_t state = look(lock);
    if ((state & ~LOCK_FLAGS) == self) break; /* for this fork, or interrupted inside */
    bool for_fork = (state & LOCK_FOR_FORK) != 0 && (state & LOCK_INSIDE) == 0;
    bool over = *patience_ms == 0 && ((state & LOCK_KEPT) == 0 || kept_ms == 0);
    bool may_take = state == 0 || (for_fork && over);
    if (may_take && change(lock, state, as | (state & LOCK_WAITERS))) break;
    if (may_take) continue;
    if (may_give_up && *patience_ms == 0) break;
    bool bounded = may_give_up || (state & LOCK_FOR_FORK) != 0;
    as |= LOCK_WAITERS; /* as in lock_wait */
    bool in_vain = sleep_on(lock, state, bounded ? 1 : OS_NO_TIMEOUT);
    if (in_vain && *patience_ms > 0) --*patience_ms;
    if (in_vain && (state & LOCK_KEPT) != 0 && kept_ms > 0) kept_ms--;
  }
  /* The wake that came here was perhaps another's, who sleeps without end: all look again, and find a fork now. */
  if ((as & LOCK_WAITERS) != 0) futex_wake(&lock->state, INT_MAX);
  slept_for = interrupted;
}

/* The look and the mark are one step: in between another thread may take the lock away, and let go of it. A mark on a lock that
 * nobody has would keep it from all for ever. relaxed: what the lock guards was acquired with it, and nobody has it in between. */
bool lock_keep_for_fork(struct lock *lock) {
  uint32_t state = look(lock);
  while ((state & ~LOCK_FLAGS) == lock_self() && (state & LOCK_FOR_FORK) != 0)
    if (atomic_compare_exchange_weak_explicit(&lock->state, &state, state | LOCK_KEPT,
                                              memory_order_relaxed, memory_order_relaxed))
      return true;
  return false;
}

void lock_release_after_fork(struct lock *lock) {
  uint32_t state = look(lock);
  while (lock_holder(lock) == LOCK_MY_FORKS)
    if (atomic_compare_exchange_weak_explicit(&lock->state, &state, 0, memory_order_release,
                                              memory_order_relaxed)) {
      if ((state & LOCK_WAITERS) != 0) wake(lock);
      return;
    }
}

bool lock_is_whole_in_child(struct lock *lock) {
  enum lock_holder holder = lock_holder(lock);
  bool inside = holder == LOCK_MINE || (look(lock) & LOCK_INSIDE) != 0;
  if ((holder == LOCK_OTHERS || !inside) && look(lock) != 0)
    atomic_store_explicit(&lock->state, 0, memory_order_relaxed);
  return holder != LOCK_OTHERS;
}
