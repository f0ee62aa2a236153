/* fork.pml - fork() while other threads are inside the allocator.
 *
 * Models: src/heap/fork.c (prepare, in_parent, in_child, fork_register), src/heap/heap.c
 * (cache_of_thread, take_cache, new_heap, heap_each_lock), src/heap/purger.c
 * (purger_each_lock), src/release/release.c (release_purge), src/heap/refill.c (refill), src/heap/adopt.c,
 * src/superslab/superslab.c (superslab_each_lock, span_acquire, superslab_new), src/os/lock.h (lock_init), src/os/lock.c
 * (enter).
 * Three threads run ROUNDS operations each: refill with adoption and a new SuperSlab, a huge
 * block, a purge, or a fork with a handler of another library that allocates inside our window.
 * Only the first thread has a heap at the start; the others make theirs when they allocate, be it
 * inside the window.
 * Left out: what the locks guard (to be inside is to enter and leave); how a lock sleeps, and how one is taken away from a
 * fork (lock.pml); parked heaps (park.pml; a heap that is reused is locked by the fork like any other).
 * Asserted: one thread at most is inside a section, the forking thread with the locks it need not
 * take counted; at the moment of the fork nobody is inside any, so that what the child gets is
 * whole once it has set the locks free; a lock is released by its holder; no deadlock; all locks
 * are free at the end.
 *
 * check: states 3,564,056
 * mutant LIST_LAST: assertion violated (the list lock after the heaps)
 * mutant SUPERSLABS_FIRST: invalid end state (superslab_lock before the heaps)
 * mutant META_FORGOTTEN: assertion violated (one lock not taken)
 * mutant ADOPT_WAITS: invalid end state (waits for another heap's lock)
 * mutant NO_PASS: invalid end state (the forking thread waits for itself)
 * mutant NEW_HEAP_UNLOCKED: assertion violated (a heap made inside the window starts free)
 * mutant REGISTERED_BY_SECOND: assertion violated (handlers come with the second heap)
 */
#ifndef ROUNDS
#define ROUNDS 2
#endif
#define THREADS 3

#define HEAP 0 /* locks 0..2: of the heaps in the order in which they were made */
#define LIST 3
#define SUPERSLAB 4
#define UNIT 5
#define META 6
#define LOCKS 7

#define NOBODY 7
#define NO_HEAP 7

byte holder[LOCKS] = NOBODY;
byte inside[LOCKS] = NOBODY; /* for the assertions: who is in the section that the lock guards */
byte forking = NOBODY;       /* lock_forking_thread */
byte heaps = 1;
byte ended;
#ifdef REGISTERED_BY_SECOND
bool registered;
#else
bool registered = true; /* with the first heap, when there is one thread yet */
#endif

#ifdef NO_PASS
#define MINE_BY_FORK false
#else
#define MINE_BY_FORK (forking == _pid)
#endif

inline enter(lock) { assert(inside[lock] == NOBODY); inside[lock] = _pid }

#define CAN_TAKE(lock) (MINE_BY_FORK || holder[lock] == NOBODY)

inline take(lock) {
  holder[lock] = (MINE_BY_FORK -> holder[lock] : _pid);
  enter(lock)
}

inline lock_acquire(lock) {
  atomic { CAN_TAKE(lock) -> take(lock) }
}

inline lock_release(lock) {
  atomic {
    assert(inside[lock] == _pid && (MINE_BY_FORK || holder[lock] == _pid));
    inside[lock] = NOBODY;
    holder[lock] = (MINE_BY_FORK -> holder[lock] : NOBODY)
  }
}

inline section(lock) { lock_acquire(lock); lock_release(lock) }

/* A new SuperSlab: descriptor, unit, list. One with room: the last of these. */
inline span_acquire() {
  if
  :: section(SUPERSLAB); section(META); section(UNIT)
  :: true
  fi;
  section(SUPERSLAB)
}

inline adopt() {
  if
  :: other = 0
  :: heaps > 1 -> other = 1
  :: heaps > 2 -> other = 2
  fi;
  if
  :: other == heap /* no hint */
#ifndef ADOPT_WAITS
  :: other != heap && !CAN_TAKE(other) /* the try failed */
#endif
  :: atomic { other != heap && CAN_TAKE(other) -> take(other) };
     section(SUPERSLAB); /* a slab that is empty now */
     lock_release(other)
  fi
}

inline refill() {
  lock_acquire(heap);
  adopt();
  span_acquire();
  lock_release(heap);
  other = 0
}

/* new_heap: the heap is in the list of all heaps from here on. */
inline take_heap() {
  lock_acquire(LIST);
  section(META);
  atomic {
    heap = heaps;
#ifndef NEW_HEAP_UNLOCKED
    holder[heap] = (MINE_BY_FORK -> _pid : NOBODY);
#endif
    heaps++
  };
  lock_release(LIST)
}

inline allocate() {
  if
  :: heap == NO_HEAP ->
     take_heap();
#ifdef REGISTERED_BY_SECOND
     refill(); /* pthread_atfork may allocate */
     registered = true
#endif
  :: else
  fi;
  refill()
}

/* huge_acquire: with no heap's lock. */
inline allocate_huge() { section(SUPERSLAB); section(META); section(UNIT) }

/* Newest first, the order of the list. */
inline purge() {
  section(SUPERSLAB); /* the statistics */
  section(UNIT);
  which = heaps;
  do
  :: which > 0 ->
     which--;
     lock_acquire(which);
     section(SUPERSLAB); /* a slab that is empty now */
     lock_release(which)
  :: else -> break
  od
}

inline hold(lock) { atomic { holder[lock] == NOBODY -> holder[lock] = _pid } }

inline hold_superslab() {
  hold(SUPERSLAB);
  hold(UNIT);
#ifndef META_FORGOTTEN
  hold(META)
#endif
}

inline hold_heaps() {
#ifndef LIST_LAST
  hold(LIST);
#endif
  which = heaps;
  do
  :: which > 0 -> which--; hold(which)
  :: else -> break
  od
}

inline prepare() {
#ifdef SUPERSLABS_FIRST
  hold_superslab();
  hold_heaps();
#else
  hold_heaps();
  hold_superslab();
#endif
#ifdef LIST_LAST
  hold(LIST);
#endif
  forking = _pid
}

inline let_go(lock) { atomic { assert(holder[lock] == _pid); holder[lock] = NOBODY } }

inline in_parent() {
  forking = NOBODY;
#ifndef META_FORGOTTEN
  let_go(META);
#endif
  let_go(UNIT);
  let_go(SUPERSLAB);
  which = heaps;
  do
  :: which > 0 -> which--; let_go(which)
  :: else -> break
  od;
  let_go(LIST)
}

/* The child gets memory as it is now. */
inline the_call() {
  atomic {
    which = 0;
    do
    :: which < LOCKS -> assert(inside[which] == NOBODY); which++
    :: else -> which = 0; break
    od
  }
}

inline fork() {
  if
  :: registered ->
     prepare();
     if
     :: true -> allocate() /* a handler that was registered before ours */
     :: true
     fi;
     the_call();
     in_parent()
#ifdef REGISTERED_BY_SECOND
  :: else -> the_call()
#endif
  fi
}

active [THREADS] proctype thread() {
  byte heap = (_pid == 0 -> 0 : NO_HEAP);
  byte round, which, other;
  do
  :: round < ROUNDS ->
     round++;
     if
     :: true -> allocate()
     :: true -> purge()
     :: true -> allocate_huge()
     :: true -> fork()
     fi
  :: else -> break
  od;
  atomic {
    ended++;
    if
    :: ended == THREADS ->
       which = 0;
       do
       :: which < LOCKS -> assert(holder[which] == NOBODY && inside[which] == NOBODY); which++
       :: else -> break
       od
    :: else
    fi
  }
}
