/* reclaim.pml - the list of heaps that may have memory of a class for others.
 *
 * Models: src/heap/reclaim.c (enter, reclaim_take), src/heap/adopt.c (adopt_slabs, adopt_from), src/heap/remote.c (push,
 * offer) and src/heap/heap.c (park, take_cache), for one class and two heaps.
 * A sender adds a batch to the inbox of a heap, and enters the heap into the list if it sleeps now: if it is parked, or two
 * batches wait there. The first heap's thread takes what was sent, parks the heap, or comes back to it; the second heap stays
 * parked. Seekers take the first heap out of the list, look
 * whether it sleeps, try its lock, take one batch, and enter it again if they took one or could not have the lock.
 * Two batches go round. A heap's lock is held for one step, but for a seeker's look.
 * Left out: at which end of the list a heap is entered; slabs, which an owner has beside its inbox; memory orders (tests/schedule/inbox.c has them).
 * Asserted, whenever no operation is under way: a heap that sleeps and has something is in the list; who is marked as offered is in the
 * list, once, and nobody else.
 *
 * check: states 3,822,140
 * mutant ENTER_IN_TWO_STEPS: assertion violated (load, then store, for the exchange: it is entered twice)
 * mutant LIST_UNLOCKED: assertion violated
 * mutant CLEAR_LAST: assertion violated (marked as not offered after the look: what is sent meanwhile is not found)
 * mutant ENTER_BEFORE_SEND: assertion violated
 * mutant ENTER_BEFORE_PARK: assertion violated
 * mutant BUSY_IS_LEFT_OUT: assertion violated (a heap whose lock is another's is not entered again)
 */
#define MARK 2
#define BATCHES 2

byte left = BATCHES; /* batches that the program has */
byte inbox[3];       /* heaps are 1 and 2 */
bool parked[3], lock[3];
bool offered[3];
byte first, last, next_offer[3];

/* For the assertions. */
byte under_way;

#define SLEEPS(heap) (parked[heap] || inbox[heap] >= MARK)

inline check() {
  if
  :: under_way == 0 ->
     assert(first == 0 || offered[first]);
     assert(offered[1] == (first == 1 || (first == 2 && next_offer[2] == 1)));
     assert(offered[2] == (first == 2 || (first == 1 && next_offer[1] == 2)));
     assert(first == 0 || next_offer[last] == 0);
     assert(!SLEEPS(1) || inbox[1] == 0 || offered[1]);
     assert(!SLEEPS(2) || inbox[2] == 0 || offered[2])
  :: else
  fi
}

inline begin() { under_way++ }
inline end() { d_step { under_way--; check() } }

/* What is done under the list's lock, which nothing else is waited for in, is one step. */
#ifdef LIST_UNLOCKED
#define UNDER_LOCK
#else
#define UNDER_LOCK d_step
#endif

inline enter(heap) {
#ifdef ENTER_IN_TWO_STEPS
  was = offered[heap];
  offered[heap] = true;
#else
  d_step { was = offered[heap]; offered[heap] = true };
#endif
  if
  :: !was ->
     UNDER_LOCK {
       next_offer[heap] = 0;
       if
       :: last != 0 -> next_offer[last] = heap
       :: else -> first = heap
       fi;
       last = heap
     }
  :: else -> was = false
  fi
}

/* reclaim_take */
inline take() {
  UNDER_LOCK {
    from = first;
    if
    :: from != 0 ->
       first = next_offer[from];
       if
       :: first == 0 -> last = 0
       :: else
       fi
    :: else
    fi
  };
#ifndef CLEAR_LAST
  offered[from] = false
#endif
}

/* push, offer */
proctype sender() {
  byte to;
  bool was;
  do
  :: atomic {
       left > 0 -> left--;
       begin();
       if
       :: to = 1
       :: to = 2
       fi
     };
#ifdef ENTER_BEFORE_SEND
     if
     :: parked[to] || inbox[to] + 1 >= MARK -> enter(to)
     :: else
     fi;
     inbox[to]++;
#else
     inbox[to]++;
     if
     :: SLEEPS(to) -> enter(to)
     :: else
     fi;
#endif
     end()
  od
}

/* The threads that have the heap, one after the other. */
#define mine 1
proctype owner() {
  bool was;
  do
  :: atomic { !parked[mine] && inbox[mine] > 0 && !lock[mine] -> left = left + inbox[mine]; inbox[mine] = 0; check() }
  :: atomic { !parked[mine] && !lock[mine] -> begin() };
#ifdef ENTER_BEFORE_PARK
     enter(mine);
     atomic { !lock[mine] -> parked[mine] = true };
#else
     atomic { !lock[mine] -> parked[mine] = true };
     enter(mine);
#endif
     end()
  :: atomic { parked[mine] && !lock[mine] -> parked[mine] = false; check() }
  od
}

/* adopt_slabs: one heap of a search. */
proctype seeker() {
  byte from;
  bool was, got, taken;
  do
  :: begin();
     take();
     if
     :: from != 0 && SLEEPS(from) ->
        d_step { got = !lock[from]; lock[from] = true };
        if
        :: got ->
           d_step {
             if
             :: inbox[from] > 0 -> inbox[from]--; left++; taken = true
             :: else
             fi
           };
           lock[from] = false
        :: else
        fi;
#ifdef CLEAR_LAST
        offered[from] = false;
#endif
        if
#ifdef BUSY_IS_LEFT_OUT
        :: taken -> enter(from)
#else
        :: taken || !got -> enter(from)
#endif
        :: else
        fi;
        taken = false;
        got = false
     :: else
#ifdef CLEAR_LAST
        -> offered[from] = false
#endif
     fi;
     from = 0;
     end()
  od
}

init {
  atomic {
    parked[2] = true;
    run sender();
    run owner();
    run seeker();
    run seeker()
  }
}
