/* park.pml - the life of a heap: taken by a thread, parked at its end, taken by the next one.
 *
 * Models: src/heap/heap.c (set_state, park, at_thread_end, take_cache, cache_borrow, cache_return),
 * src/release/release.c (release_purge), src/heap/adopt.c (the look at `state` without the lock, and again with
 * it).
 * Three threads live and end for ever; while one lives it uses its bins without a lock, adopts and
 * purges. A thread that only borrows a heap (past its end) does the same with a short life.
 * Left out: what is in the bins (ownership.pml): to touch them is to enter and leave; the other
 * hints for adoption; new_heap's failure; that a round of adoption or purge looks at several
 * heaps; memory orders (the heap's lock and the list's lock carry the stores from one user to the
 * next).
 * Asserted: bins, outgoing batches and span cache of a heap are never touched by two at once; a
 * heap has one thread at most, and is in the list of parked heaps once at most, and not while it
 * has one; its state does not say PARKED while its thread uses it; no deadlock.
 *
 * check: states 450,376
 * mutant NO_SECOND_LOOK: assertion violated (adopts by what it saw without the lock)
 * mutant ACTIVE_UNLOCKED: assertion violated (a heap is taken without its lock)
 * mutant LISTED_FIRST: assertion violated (listed as parked before it is)
 * mutant LIST_UNLOCKED: assertion violated (taken off the list without its lock)
 */
#define HEAPS 3
#define NO_HEAP 7

bool list_lock;
bool lock[HEAPS];
bool parked[HEAPS];            /* heap->state */
byte parked_heaps = NO_HEAP;   /* list: first */
byte next_parked[HEAPS];       /* list: next */
byte heaps;                    /* made so far; all_heaps is 0..heaps-1 */

/* For the assertions only. */
byte touching[HEAPS]; /* threads between enter and leave */
bool taken[HEAPS];    /* has a thread */
bool listed[HEAPS];   /* in the list of parked heaps */

inline touch(heap) {
  d_step { touching[heap]++; assert(touching[heap] == 1 && (heap != mine || !parked[heap])) };
  d_step { assert(touching[heap] == 1); touching[heap]-- }
}

inline set_state(heap, value) {
#ifdef ACTIVE_UNLOCKED
  if
  :: value -> atomic { !lock[heap] -> lock[heap] = true }
  :: else
  fi;
  d_step { parked[heap] = value; lock[heap] = (value -> false : lock[heap]) }
#else
  atomic { !lock[heap] -> lock[heap] = true };
  d_step { parked[heap] = value; lock[heap] = false }
#endif
}

inline take_heap() {
#ifndef LIST_UNLOCKED
  atomic { !list_lock -> list_lock = true };
#endif
  mine = parked_heaps;
  d_step {
    if
    :: mine != NO_HEAP -> /* reused */
       parked_heaps = next_parked[mine];
       next_parked[mine] = 0;
       assert(listed[mine] && !taken[mine] && parked[mine]);
       listed[mine] = false;
       taken[mine] = true;
       other = 1
    :: else -> /* new_heap */
       assert(heaps < HEAPS);
       mine = heaps;
       heaps++;
       taken[mine] = true;
       other = 0
    fi;
    list_lock = false
  };
  if
  :: other == 1 -> set_state(mine, false)
  :: else
  fi;
  d_step { other = 0; assert(!parked[mine]) }
}

inline list_parked() {
  atomic { !list_lock -> list_lock = true };
  d_step {
    assert(!listed[mine]);
    listed[mine] = true;
    taken[mine] = false;
    next_parked[mine] = parked_heaps;
    parked_heaps = mine;
    list_lock = false
  }
}

inline park() {
  touch(mine); /* remote_flush, span_cache_flush */
#ifdef LISTED_FIRST
  list_parked();
  set_state(mine, true);
#else
  set_state(mine, true);
  list_parked();
#endif
  mine = NO_HEAP
}

/* Of one other heap; a round over more would be the same again. */
inline adopt() {
  atomic { !lock[mine] -> lock[mine] = true };
  atomic {
    if
    :: mine != 0 -> other = 0
    :: mine != 1 && heaps > 1 -> other = 1
    :: mine != 2 && heaps > 2 -> other = 2
    :: other = mine /* there is no other, or no hint */
    fi;
    was_parked = parked[other]
  };
  if
  :: was_parked ->
     if
     :: atomic { !lock[other] -> lock[other] = true };
#ifndef NO_SECOND_LOOK
        was_parked = parked[other];
#endif
        if
        :: was_parked -> touch(other)
        :: else
        fi;
        lock[other] = false
     :: lock[other] /* the try failed */
     fi
  :: else
  fi;
  atomic { lock[mine] = false; other = 0; was_parked = false }
}

/* release_purge, of one heap: waits for the lock, but holds no other meanwhile. */
inline purge() {
  if
  :: other = 0
  :: heaps > 1 -> other = 1
  :: heaps > 2 -> other = 2
  fi;
  atomic { !lock[other] -> lock[other] = true };
  if
  :: parked[other] || other == mine -> touch(other)
  :: else
  fi;
  atomic { lock[other] = false; other = 0 }
}

active [3] proctype thread() {
  byte mine = NO_HEAP, other;
  bool was_parked;
  do
  :: take_heap();
     do
     :: touch(mine)
     :: adopt()
     :: purge()
     :: break
     od;
     park()
  od
}
