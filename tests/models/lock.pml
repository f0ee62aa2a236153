/* lock.pml - the lock of one word that sleeps in the kernel.
 *
 * Models: src/os/lock.h (lock_try, lock_acquire, lock_release), src/os/lock.c (lock_wait,
 * lock_wake).
 * Three threads take the lock ROUNDS times each; in the last round each only tries it.
 * Left out: the number of spins (each look may be the last one), pause instructions, errno, and
 * the forking thread (fork.pml). Each atomic operation of the code is one step; FUTEX_WAIT
 * compares and falls asleep in one step, FUTEX_WAKE wakes any one sleeper, as the kernel
 * guarantees.
 * Asserted: one thread at most is inside; the word is not 0 while one is; nobody sleeps for ever
 * (all threads reach their end: a lost wake-up is an invalid end state); at the end the lock is
 * free.
 * SPURIOUS: the kernel also ends one sleep without a wake (a signal).
 *
 * check: states 386,494
 * check SPURIOUS: states 782,272
 * mutant NO_WAKE: invalid end state (release wakes nobody)
 * mutant SLEEP_UNCOMPARED: invalid end state (sleep without a look at the word)
 * mutant WOKEN_TAKES_AS_1: invalid end state (the woken forgets that others sleep)
 * mutant TRY_IN_TWO_STEPS: assertion violated (load, then store)
 */
#define THREADS 3
#define ROUNDS 3

byte state;           /* the futex word: 0 free, 1 held, 2 held and somebody may be asleep */
bool asleep[THREADS];
byte inside;          /* threads between acquire and release */
byte ended;
#ifdef SPURIOUS
byte spurious = 1;
#endif

/* lock_try; `got` says whether it is held now. */
inline try_lock() {
#ifdef TRY_IN_TWO_STEPS
  got = (state == 0);
  if
  :: got -> state = 1
  :: else
  fi
#else
  d_step {
    got = (state == 0);
    if
    :: got -> state = 1
    :: else
    fi
  }
#endif
}

inline futex_wait() {
  d_step {
    if
#ifdef SLEEP_UNCOMPARED
    :: true -> asleep[_pid] = true
#else
    :: state == 2 -> asleep[_pid] = true
    :: else /* EAGAIN */
#endif
    fi
  }
  if
  :: !asleep[_pid]
#ifdef SPURIOUS
  :: d_step { spurious > 0 && asleep[_pid] -> spurious--; asleep[_pid] = false }
#endif
  fi
}

inline futex_wake() {
  atomic {
    if
    :: asleep[0] -> asleep[0] = false
    :: asleep[1] -> asleep[1] = false
    :: asleep[2] -> asleep[2] = false
    :: !asleep[0] && !asleep[1] && !asleep[2]
    fi
  }
}

inline lock_wait() {
  do
  :: true -> /* one look of the spin loop */
     old = state;
     if
     :: old == 0 ->
        try_lock();
        if
        :: got -> break
        :: else
        fi
     :: old == 2 -> break
     :: else
     fi
  :: break /* enough of it */
  od;
  do
  :: got -> break
  :: else ->
#ifdef WOKEN_TAKES_AS_1
     d_step {
       old = state;
       if
       :: old == 0 -> state = 1
       :: else -> state = 2
       fi
     }
#else
     d_step { old = state; state = 2 }
#endif
     if
     :: old == 0 -> got = true
     :: else -> futex_wait()
     fi
  od
}

inline critical_section() {
  d_step { inside++; assert(inside == 1 && state != 0) }
  d_step { assert(inside == 1 && state != 0); inside-- }
}

inline lock_release() {
  d_step { old = state; state = 0 }
#ifndef NO_WAKE
  if
  :: old == 2 -> futex_wake()
  :: else
  fi
#endif
}

active [THREADS] proctype thread() {
  byte old, round;
  bool got;
  do
  :: round < ROUNDS ->
     round++;
     try_lock();
     if
     :: got
     :: !got && round < ROUNDS -> lock_wait()
     :: !got && round == ROUNDS -> break /* as an adopter, that gives up */
     fi;
     critical_section();
     lock_release();
     got = false
  :: else -> break
  od;
  ended++;
  assert(ended < THREADS || state == 0)
}
