/* helper.pml - the helper thread of a program with threads.
 *
 * Models: src/release/background.c (start_helper, is_heard, release_wake, release_get_ready, work, wait_for_call, comes_to,
 * helper_main) and src/heap/purger.c (purger_call, purger_call_again, purger_wake, purger_end_is_reported), and park of src/heap/heap.c.
 * The main thread stays, and does nothing here. Others grow, which starts the helper, or free, which calls it, ROUNDS times, and end; so
 * the helper sleeps without a time-out and has to notice that the last of them has gone. The system may refuse a thread.
 * What a thread frees waits until the helper looks. A call for it that the helper is too busy to hear is noted for it; one that finds
 * no helper is left unheard for the next malloc.
 * Left out: what a pass does (purge.pml); how long a helper that works sleeps between looks; threads without a heap, which only make
 * it stay longer; threads that are born; the marks; fork. spin interleaves and does not reorder: that both sides
 * need seq_cst is what the mutants LOOKS_FIRST and HURRIES_FIRST show.
 * Asserted: there is one helper at most; when all threads but the main one have ended, so has the helper; once a thread has called, the
 * helper neither sleeps until it is called nor has ended, with the call not left unheard, while what that thread has freed waits.
 *
 * check: states 643,956
 * mutant START_IN_TWO_STEPS: assertion violated (load, then store, for the compare-and-swap)
 * mutant NO_CALL_AT_END: invalid end state (the last thread rings, and the helper sleeps on another word)
 * mutant LOOKS_FIRST: invalid end state (the helper counts the threads before its state can be seen)
 * mutant HURRIES_FIRST: invalid end state (the last thread looks for a helper before it has gone)
 * mutant CLEARED_LATE: assertion violated (the note is cleared after the look that it is about)
 * mutant NO_LOOK_AT_END: assertion violated (the helper reads the note before it says that it waits, not after)
 * mutant NOTED_LATE: assertion violated (a thread looks for the helper, and notes its call after that)
 * mutant CALL_WITHOUT_WAKE: invalid end state (the state alone)
 */
#ifndef ROUNDS
#define ROUNDS 2
#endif
#define THREADS 2
#define MAIN 1

#define NONE 0
#define RUNS 1
#define WAITS 2

byte helper = NONE;
byte active_threads = THREADS + MAIN; /* heaps */
byte bell;
bool asleep_on_helper, asleep_on_bell; /* in the kernel */
bool exists;                           /* for the assertion */
bool again;                            /* a call while it was at work */
bool unheard;                          /* a call when there was none */
bool waits[THREADS];                   /* what that thread has freed */

inline call() {
  atomic {
    called = (helper == WAITS);
    if
    :: called -> helper = RUNS
    :: else
    fi
  };
  if
#ifndef CALL_WITHOUT_WAKE
  :: called -> asleep_on_helper = false
#endif
  :: else
  fi
}

inline hurry() {
#ifndef HURRIES_FIRST
  seen = helper;
#endif
  if
  :: seen == NONE
  :: else ->
     atomic { bell = 1 - bell; asleep_on_bell = false };
#ifndef NO_CALL_AT_END
     call()
#endif
  fi
}

/* One look after the other until too little waits, or no thread but the main one is left. */
inline work() {
  do
  :: true ->
     heard = bell;
     if
     :: active_threads <= MAIN -> wanted = false; break
     :: else
     fi;
     atomic { asleep_on_bell = (bell == heard) };
     if
     :: !asleep_on_bell
     :: asleep_on_bell = false /* the time is over */
     fi;
     if
     :: active_threads <= MAIN -> wanted = false; break
     :: else
     fi;
#ifndef CLEARED_LATE
     again = false;
#endif
     d_step { waits[0] = false; waits[1] = false }; /* the look */
#ifdef CLEARED_LATE
     again = false;
#endif
     if
     :: true             /* there is more */
     :: !again -> break
     fi
  od
}

proctype helper_main() {
  byte heard, left;
  bool wanted = true;
at_work:
  work();
  if
  :: !wanted -> unheard = true; goto ended
  :: else
  fi;
#ifdef LOOKS_FIRST
  left = active_threads;
#endif
  helper = WAITS;
#ifndef NO_LOOK_AT_END
  if
  :: again ->
     atomic {
       if
       :: helper == WAITS -> helper = RUNS
       :: else
       fi
     };
     goto at_work
  :: else
  fi;
#endif
wait_for_call:
#ifndef LOOKS_FIRST
  left = active_threads;
#endif
  if
  :: left <= MAIN ->
     atomic {
       if
       :: helper == WAITS -> exists = false; helper = NONE; goto gone
       :: else -> goto at_work
       fi
     }
  :: else
  fi;
  if
  :: helper == WAITS ->
     atomic {
       if
       :: helper == WAITS -> asleep_on_helper = true
       :: else
       fi
     };
     !asleep_on_helper;
     left = active_threads;
     goto wait_for_call
  :: else -> goto at_work
  fi;
ended:
  atomic { exists = false; helper = NONE };
gone:
  skip
}

active [THREADS] proctype thread() {
  byte rounds, seen, before;
  bool called, mine;
  do
  :: rounds < ROUNDS ->
     rounds++;
     if
     :: seen = helper; /* grows */
        if
        :: seen == NONE ->
#ifdef START_IN_TWO_STEPS
           mine = (helper == NONE);
           if
           :: mine -> helper = RUNS
           :: else
           fi;
#else
           atomic {
             mine = (helper == NONE);
             if
             :: mine -> helper = RUNS
             :: else
             fi
           };
#endif
           if
           :: mine -> atomic { assert(!exists); exists = true; unheard = false; run helper_main() }
           :: mine -> atomic { helper = NONE; waits[0] = false; waits[1] = false } /* refused: beats.pml has the calls until then */
           :: else
           fi
        :: else
        fi
     :: waits[_pid] = true; /* frees */
        called = false;
        seen = helper;
        do
        :: called || seen == NONE -> break
        :: else ->
           if
           :: seen == WAITS -> call()
           :: else
           fi;
           if
           :: called -> break
#ifdef NOTED_LATE
           :: else -> seen = helper; again = true
#else
           :: else -> again = true; seen = helper
#endif
           fi;
           if
           :: seen == RUNS -> break
           :: else
           fi
        od;
        if
        :: !called && seen == NONE -> unheard = true
        :: else
        fi;
        assert(!(waits[_pid] && seen != NONE && helper == WAITS && asleep_on_helper));
        assert(!(waits[_pid] && seen != NONE && helper == NONE && !unheard))
     fi
  :: else -> break
  od;
#ifdef HURRIES_FIRST
  seen = helper;
#endif
  atomic { before = active_threads; active_threads-- };
  if
  :: before <= MAIN + 1 -> hurry()
  :: else
  fi
}
