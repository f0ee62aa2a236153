/* beats.pml - memory waits, and there is no helper thread: the program's own calls scan.
 *
 * Models: src/release/beat.c (begin_scan, end_scan, go_on_with_scan, beat, release_request_beats) and src/release/background.c (release_wake,
 * is_heard, start_helper, release_get_ready) where the system refuses each helper.
 * Each of the threads frees, which calls the helper or requests beats; or grows, which tries to start a helper; or has a beat. ROUNDS times.
 * What a thread frees waits until a scan looks. Any scan may find that nothing is left.
 * Left out: a helper that starts (helper.pml); the pieces of a scan; when a beat comes; fork. spin interleaves and does not reorder: the code says
 * at each store which order it needs.
 * Asserted: when all threads have done what they do, and something waits, beats are requested or the call is left unheard for the next malloc.
 *
 * FILTER: no helper is ever tried, and no call left unheard (purger_may_have_helper).
 *
 * check: states 95,020
 * check FILTER: states 12,532
 * mutant FILTER ENDS_BLINDLY: assertion violated (a scan that ends does not ask for calls again once its state can be seen)
 * mutant FILTER REQUESTS_BLINDLY: assertion violated (a call is noted for a scan that has ended meanwhile)
 * mutant DROPS_BLINDLY: assertion violated (a beat leaves the work to a helper that is refused meanwhile)
 * mutant REFUSED_SILENTLY: assertion violated (who was refused requests beats only for calls from before)
 */
#ifndef ROUNDS
#define ROUNDS 2
#endif
#define THREADS 2

#define NONE 0
#define RUNS 1

#define REQUESTED 1
#define GO_ON 2

byte helper = NONE, beats = NONE;
bool again;   /* a call while helper or scan was at work */
bool unheard; /* a call when there was no helper */
bool locked;  /* for scans */
bool scanning;
bool waits[THREADS]; /* what that thread has freed */
byte done;

inline request() {
  seen = beats;
  if
  :: seen != NONE ->
     again = true;
#ifndef REQUESTS_BLINDLY
     seen = beats
#endif
  :: else
  fi;
  if
  :: seen == NONE -> beats = REQUESTED
  :: else
  fi
}

inline scan() {
  if
  :: !scanning || beats == REQUESTED ->
     again = false;
     beats = GO_ON;
     scanning = true
  :: else
  fi;
  d_step { waits[0] = false; waits[1] = false }; /* the look */
  if
  :: true /* its next piece comes with the next beat */
  :: true ->
     scanning = false;
     if
     :: true -> skip /* much waits */
     :: !again ->
        beats = NONE;
#ifndef ENDS_BLINDLY
        if
        :: again -> beats = REQUESTED
        :: else
        fi
#endif
     fi
  fi
}

inline beat() {
#ifndef FILTER
  seen = helper;
  if
  :: seen != NONE ->
     beats = NONE;
#ifndef DROPS_BLINDLY
     if
     :: helper == NONE -> beats = REQUESTED
     :: else
     fi
#endif
  :: else
  fi;
#endif
  if
  :: beats != NONE ->
     atomic { mine = !locked; locked = true };
     if
     :: mine -> scan(); locked = false
     :: else
     fi
  :: else
  fi
}

inline grow() {
  if
  :: helper != NONE
  :: else ->
     before = unheard;
     if
     :: true -> /* the system may be asked */
        if
        :: before -> unheard = false
        :: else
        fi;
        atomic {
          mine = (helper == NONE);
          if
          :: mine -> helper = RUNS
          :: else
          fi
        };
        if
        :: mine ->
           helper = NONE;
           unheard = false;
#ifdef REFUSED_SILENTLY
           if
           :: before -> request()
           :: else
           fi
#else
           request()
#endif
        :: else
        fi
     :: before -> /* it has refused not long ago */
        unheard = false;
        request()
     :: !before
     fi
  fi
}

inline free_some() {
  waits[_pid] = true;
  seen = helper;
#ifndef FILTER
  if
  :: seen == RUNS -> again = true; seen = helper
  :: else
  fi;
#endif
  if
  :: seen == NONE ->
#ifndef FILTER
     unheard = true;
#endif
     request()
  :: else
  fi
}

active [THREADS] proctype thread() {
  byte rounds, seen;
  bool mine, before;
  do
  :: rounds < ROUNDS ->
     rounds++;
     if
     :: true -> free_some()
#ifndef FILTER
     :: true -> grow()
#endif
     :: true -> beat()
     fi
  :: rounds == ROUNDS -> break
  od;
  atomic {
    done++;
    assert(done < THREADS || beats != NONE || unheard || !(waits[0] || waits[1]))
  }
}
