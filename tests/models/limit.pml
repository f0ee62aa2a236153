/* limit.pml - a thread that looks at a memory limit has the helper read it.
 *
 * Models: src/release/limit.c (room_for, helper_is_at_it, wakes_helper, wait_for_answer, is_lost, limit_serve). Threads take turns (purger_limit_lock). Each
 * waits for its answer, or reads itself when the helper does not come in time or has ended; or it does not wait, and the next one finds the helper at
 * it. The helper may end between two answers, and come again.
 * Left out: how it is woken (helper.pml); what is read; a fork within a handler of a signal.
 * Asserted: one at a time reads; who goes on has an answer to what it asked for.
 *
 * check: states 97,501
 * mutant SERVES_BLINDLY: assertion violated (the helper does not take the request in one step)
 * mutant LEAVES_BLINDLY: assertion violated (a thread reads although the helper has begun to)
 * mutant GONE_FIRST: assertion violated (a helper that had ended, and one that came then and reads, are taken for one)
 */
#ifndef ROUNDS
#define ROUNDS 2
#endif
#define THREADS 2

#define NOBODY 0
#define ASKED 1
#define READS 2
#define ANSWERED 3

byte request = NOBODY, asked_for, answer, reading, done;
bool locked, there = true;

inline read(what) {
  reading++;
  assert(reading == 1);
  answer = what;
  reading--
}

active proctype helper() {
  byte mine;
  do
  :: request == ASKED && there ->
#ifdef SERVES_BLINDLY
     request = READS;
#else
     atomic {
       if
       :: request == ASKED -> request = READS
       :: else -> goto next
       fi
     };
#endif
     mine = asked_for;
     read(mine);
     request = ANSWERED;
next:
     skip
  :: there = false /* the program has one thread again */
  :: there = true
  :: done == THREADS -> break
  od
}

active [THREADS] proctype thread() {
  byte rounds, state, own;
  bool ends, gone;
  do
  :: rounds < ROUNDS ->
     rounds++;
     atomic { !locked; locked = true };
     state = request;
     if
     :: state == ASKED || state == READS ->
        gone = !there;
        atomic {
          if
          :: gone && request == state -> request = NOBODY
          :: else -> goto leaves
          fi
        }
     :: else
     fi;
     own = rounds * THREADS + _pid;
     answer = 0;
     asked_for = own;
     request = ASKED;
     if
     :: true -> goto leaves /* it does not wait */
     :: true
     fi;
     do
     :: true ->
#ifdef GONE_FIRST
        gone = !there;
        state = request;
#else
        state = request;
        gone = !there;
#endif
        if
        :: state == ANSWERED -> break
        :: else
        fi;
        if
        :: state == ASKED -> ends = gone
        :: state == ASKED -> ends = true /* it is late */
#ifdef GONE_FIRST
        :: state == READS -> ends = gone
#else
        :: state == READS -> ends = (gone && request == READS)
#endif
        fi;
        if
        :: ends ->
#ifdef LEAVES_BLINDLY
           request = NOBODY; read(own); break
#else
           atomic {
             if
             :: request == state -> request = NOBODY; ends = true
             :: else -> ends = false
             fi
           };
           if
           :: ends -> read(own); break
           :: else
           fi
#endif
        :: else
        fi
     od;
     assert(answer == own);
leaves:
     locked = false
  :: rounds == ROUNDS -> break
  od;
  done++
}
