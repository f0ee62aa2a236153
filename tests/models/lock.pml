/* lock.pml - the lock of one word that sleeps in the kernel, and what a fork may do with it.
 *
 * Models: src/os/lock.h (lock_acquire, lock_release), src/os/lock.c (lock_try, lock_wait, lock_release_slow,
 * lock_release_in_turn, lock_pass_wake_on, lock_acquire_for_fork, lock_release_after_fork, lock_is_whole_in_child).
 * Two threads take the lock ROUNDS times each; in the last round each only tries it. The second one may release it in turn. A
 * third one holds it for a fork, perhaps in a signal handler that came when it slept for the lock itself. It may
 * enter what the lock guards, and it cannot end its fork before the first thread has come to its end: as if that one held
 * a lock of libc's, which the fork takes after this one.
 * Left out: the number of spins (each look may be the last one), pause instructions, errno, other signal handlers. Each atomic
 * operation of the code is one step; FUTEX_WAIT compares and falls asleep in one step, FUTEX_WAKE wakes any one
 * sleeper, as the kernel guarantees. Time passes at any moment.
 * Asserted: one thread at most is inside; the word is not 0 while one is; nobody sleeps for ever
 * (all threads reach their end: a lost wake-up is an invalid end state); what the child takes for whole has nobody
 * inside at the moment of the fork; at the end the lock is free.
 * SPURIOUS: the kernel also ends one sleep without a wake (a signal).
 *
 * check: states 2,243,902
 * check SPURIOUS: states 4,617,035
 * mutant NO_WAKE: invalid end state (release wakes nobody)
 * mutant SLEEP_UNCOMPARED: invalid end state (sleep without a look at the word)
 * mutant WOKEN_FORGETS: invalid end state (the woken forgets that others sleep)
 * mutant TRY_IN_TWO_STEPS: assertion violated (load, then store)
 * mutant NO_PATIENCE_ENDS: invalid end state (a lock held for a fork is waited for without end)
 * mutant TAKES_FROM_INSIDE: assertion violated (the forking thread is inside when its lock is taken away)
 * mutant FORK_KEEPS_THE_WAKE: invalid end state (another sleeper does not learn that the lock is held for a fork now)
 * mutant INTERRUPTED_KEEPS_THE_WAKE: invalid end state (a sleeper is woken, and its signal handler waits for another sleeper)
 * mutant IN_TURN_KEEPS_THE_WAKE: invalid end state (who releases in turn is woken by the next release in a sleeper's place)
 * mutant GIVES_UNCOMPARED: assertion violated (the fork's end sets a lock free that was taken from it)
 * mutant CHILD_TRUSTS: assertion violated (the child does not look who holds the lock)
 */
#define THREADS 3
#define FORKER 2
#define ROUNDS 3

#define FREE 0
#define ME (_pid + 1)

/* The futex word: who holds it, and its flags. */
byte owner;
bool waiters, for_fork, in_it;

bool asleep[THREADS];
byte inside; /* threads between acquire and release */
byte ended;
bool first_ended;
#ifdef SPURIOUS
byte spurious = 1;
#endif

#define UNCHANGED                                                                                  \
  (owner == o && waiters == w && for_fork == f && in_it == i)

inline look() { d_step { o = owner; w = waiters; f = for_fork; i = in_it } }

inline try_lock() {
#ifdef TRY_IN_TWO_STEPS
  got = (owner == FREE);
  if
  :: got -> d_step { owner = ME; waiters = false; for_fork = false; in_it = false }
  :: else
  fi
#else
  d_step {
    got = (owner == FREE);
    if
    :: got -> owner = ME
    :: else
    fi
  }
#endif
}

/* Falls asleep on the word that was looked at; `timed`: time may end it, which `waited` says then. */
inline sleep_on(timed) {
  d_step {
    marked = UNCHANGED;
    if
    :: marked -> waiters = true; w = true
    :: else
    fi
  }
  if
  :: marked ->
     d_step {
       if
#ifdef SLEEP_UNCOMPARED
       :: true -> asleep[_pid] = true
#else
       :: UNCHANGED -> asleep[_pid] = true
       :: else /* EAGAIN */
#endif
       fi
     }
     if
     :: !asleep[_pid]
     :: d_step { timed && asleep[_pid] -> asleep[_pid] = false; waited = true }
#ifdef SPURIOUS
     :: d_step { spurious > 0 && asleep[_pid] -> spurious--; asleep[_pid] = false }
#endif
     fi
  :: else
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

#ifdef NO_PATIENCE_ENDS
#define TIMED false
#else
#define TIMED f
#endif
#ifdef TAKES_FROM_INSIDE
#define MAY_TAKE (f && waited)
#else
#define MAY_TAKE (f && waited && !i)
#endif
#ifdef WOKEN_FORGETS
#define MARK false
#else
#define MARK true
#endif

inline lock_wait() {
  waited = false;
  do
  :: got -> break
  :: else ->
     look();
     if
     :: o == FREE ->
        d_step {
          if
          :: UNCHANGED -> owner = ME; waiters = MARK; got = true
          :: else
          fi
        }
     :: o == ME && f -> /* the forking thread's own */
        d_step {
          if
          :: UNCHANGED -> in_it = true; got = true
          :: else
          fi
        }
     :: o != FREE && o != ME && MAY_TAKE ->
        d_step {
          if
          :: UNCHANGED -> owner = ME; waiters = true; for_fork = false; in_it = false; got = true
          :: else
          fi
        }
     :: o != FREE && o != ME && !MAY_TAKE -> waited = false; sleep_on(TIMED)
     fi
  od
}

inline critical_section() {
  d_step { inside++; assert(inside == 1 && owner != FREE) }
  d_step { assert(inside == 1 && owner != FREE); inside-- }
}

inline lock_release() {
  if
  :: for_fork -> in_it = false
  :: else ->
     d_step { w = waiters; owner = FREE; waiters = false; in_it = false }
#ifndef NO_WAKE
     if
     :: w -> futex_wake()
     :: else
     fi
#endif
  fi
}

/* Sleeps until the lock has been somebody else's, for a time at most. */
inline release_in_turn() {
  look();
  if
  :: f || !w -> lock_release()
  :: else ->
     d_step { owner = FREE; waiters = false }
     atomic {
       got = asleep[0] || asleep[1] || asleep[2];
       futex_wake()
     }
     d_step {
       got = got && owner == FREE && !waiters;
       if
       :: got -> asleep[_pid] = true
       :: else
       fi
     }
     if
     :: got ->
        if
        :: d_step { asleep[_pid] -> asleep[_pid] = false }
        :: !asleep[_pid] ->
#ifndef IN_TURN_KEEPS_THE_WAKE
           futex_wake()
#else
           skip
#endif
        fi
     :: else
     fi
  fi
}

inline end() {
  atomic {
    ended++;
    assert(ended < THREADS || owner == FREE)
  }
}

active [2] proctype thread() {
  byte round, o;
  bool got, w, f, i, marked, waited;
  do
  :: round < ROUNDS ->
     round++;
     got = false;
     try_lock();
     if
     :: got
     :: !got && round < ROUNDS -> lock_wait()
     :: !got && round == ROUNDS -> break /* as an adopter, that gives up */
     fi;
     critical_section();
     if
     :: lock_release()
     :: _pid == 1 -> release_in_turn()
     fi
  :: else -> break
  od;
  if
  :: _pid == 0 -> first_ended = true
  :: else
  fi;
  end()
}

/* No other fork is under way, so this one waits for as long as it takes. */
inline acquire_for_fork() {
  do
  :: true ->
     look();
     if
     :: o == FREE ->
        d_step {
          got = UNCHANGED;
          if
          :: got -> owner = ME; for_fork = true; waiters = slept
          :: else
          fi
        }
        if
        :: got -> break
        :: else
        fi
     :: else -> slept = true; sleep_on(false)
     fi
  od;
#ifndef FORK_KEEPS_THE_WAKE
  if
  :: slept -> d_step { asleep[0] = false; asleep[1] = false; asleep[2] = false }
  :: else
  fi
#endif
}

inline release_after_fork() {
  do
  :: true ->
     look();
     if
#ifdef GIVES_UNCOMPARED
     :: true -> d_step { owner = FREE; waiters = false; for_fork = false; in_it = false } futex_wake(); break
#else
     :: o == ME && f ->
        d_step {
          got = UNCHANGED;
          if
          :: got -> owner = FREE; waiters = false; for_fork = false; in_it = false
          :: else
          fi
        }
        if
        :: got && w -> futex_wake(); break
        :: got && !w -> break
        :: else
        fi
     :: else -> break
#endif
     fi
  od
}

active proctype forker() {
  byte o;
  bool got, w, f, i, marked, waited, slept, interrupted;
  if
  :: true -> /* a handler interrupts lock_wait, which has slept */
     look();
     if
     :: o != FREE ->
        sleep_on(false);
        interrupted = true;
#ifndef INTERRUPTED_KEEPS_THE_WAKE
        futex_wake()
#endif
     :: else
     fi
  :: true
  fi;
  if /* there are more locks than this one, and it waits for one that a sleeper holds */
  :: true
  :: interrupted -> first_ended
  fi;
  acquire_for_fork();
  if
  :: true -> /* a handler of another library allocates */
     got = false;
     lock_wait();
     critical_section();
     lock_release()
  :: true
  fi;
  first_ended; /* libc's lock */
  d_step { /* the child gets memory as it is now */
#ifdef CHILD_TRUSTS
    assert(inside == 0)
#else
    assert(!(owner == ME && for_fork) || inside == 0)
#endif
  }
  release_after_fork();
  if
  :: interrupted -> /* goes on where it was */
     got = false;
     lock_wait();
     critical_section();
     lock_release()
  :: !interrupted
  fi;
  end()
}
