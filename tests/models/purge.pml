/* purge.pml - pages go back from under a slab that is in use.
 *
 * Models: src/slab/holes.c (purge_begin, purge_find, purge_end, hole_open), src/slab/slab.c (slab_put,
 * slab_take_list), src/heap/slabs.c (put_run), src/heap/refill.c (take_back, take_from_slabs), src/release/release.c (scan_slabs).
 * A slab of two pages and three blocks, of which the middle one lies in both. Its owner takes blocks for the
 * program and puts them back for ever, under the heap's lock; the purger takes the free list under the
 * lock, looks and gives pages back without it, and brings back the rest under the lock.
 * Left out: carving and the tail behind it; that the slab may change owners (only listed slabs do, and this one
 * is not listed meanwhile); fork (it waits for the purger's batch).
 * Asserted: a page that is given back touches no block that is with the program or in a list; afterwards every
 * block is in one place, and touches a hole exactly if it is in one; the slab is released empty, and not
 * while the purger has it.
 *
 * check: states 1,840
 * mutant STRADDLER_STAYS: assertion violated (a block across a hole's end stays in the list)
 * mutant OPEN_ALL: assertion violated (opening a page also hands out a block that touches another hole)
 * mutant RELEASE_BUSY: assertion violated (emptiness counts what the purger has)
 * mutant LISTED: assertion violated (the owner opens holes of a slab that the purger has)
 */
#define PROGRAM 0
#define LIST 1
#define ENGINE 2
#define HOLE 3

byte place[3];   /* of each block */
bool hole[2];    /* of each page */
bool purging;
bool lock;
bool released;

#define TOUCHES_HOLE(b) ((b < 2 && hole[0]) || (b > 0 && hole[1]))
#define FREE_PLACE(b) (place[b] == LIST || place[b] == HOLE)

inline take_lock() { atomic { !lock -> lock = true } }
inline drop_lock() {
  d_step {
    b = 0;
    do
    :: b < 3 ->
       assert(purging || (place[b] == HOLE) == (TOUCHES_HOLE(b)));
       assert(purging || place[b] != ENGINE);
       b++
    :: else -> break
    od;
    b = 0;
    lock = false
  }
}

#ifdef RELEASE_BUSY
#define EMPTY (place[0] != PROGRAM && place[1] != PROGRAM && place[2] != PROGRAM)
#else
#define EMPTY (!purging && FREE_PLACE(0) && FREE_PLACE(1) && FREE_PLACE(2))
#endif

/* hole_open for one page: its blocks that touch no other hole. */
inline open(page) {
  hole[page] = false;
  b = 0;
  do
  :: b < 3 ->
     if
#ifdef OPEN_ALL
     :: place[b] == HOLE && b >= page && b <= page + 1 -> place[b] = LIST
#else
     :: place[b] == HOLE && !(TOUCHES_HOLE(b)) -> place[b] = LIST
#endif
     :: else
     fi;
     b++
  :: else -> break
  od;
  b = 0
}

active proctype owner() {
  byte b;
endless:
  do
  :: take_lock(); /* refill: the slab is not listed while the purger has it */
     d_step {
       if
#ifdef LISTED
       :: true ->
#else
       :: !purging ->
#endif
          if
          :: place[0] != LIST && place[1] != LIST && place[2] != LIST && hole[0] -> open(0)
          :: place[0] != LIST && place[1] != LIST && place[2] != LIST && !hole[0] && hole[1] -> open(1)
          :: else
          fi;
          place[0] = (place[0] == LIST -> PROGRAM : place[0]);
          place[1] = (place[1] == LIST -> PROGRAM : place[1]);
          place[2] = (place[2] == LIST -> PROGRAM : place[2])
       :: else
       fi
     };
     drop_lock()
  :: take_lock(); /* a block comes back */
     if
     :: place[0] == PROGRAM -> place[0] = LIST
     :: place[1] == PROGRAM -> place[1] = LIST
     :: place[2] == PROGRAM -> place[2] = LIST
     :: place[0] != PROGRAM && place[1] != PROGRAM && place[2] != PROGRAM
     fi;
     d_step {
       if
       :: EMPTY -> assert(!purging); released = true;
          place[0] = PROGRAM; place[1] = PROGRAM; place[2] = PROGRAM;
          hole[0] = false; hole[1] = false /* and carved anew */
       :: else
       fi
     };
     drop_lock()
  od
}

active proctype engine() {
  byte b;
  bool fresh[2];
endless:
  do
  :: take_lock();
     d_step {
       purging = true;
       place[0] = (place[0] == LIST -> ENGINE : place[0]);
       place[1] = (place[1] == LIST -> ENGINE : place[1]);
       place[2] = (place[2] == LIST -> ENGINE : place[2])
     };
     drop_lock();
     /* purge_find: blocks that come back meanwhile are not seen, and count as in use */
     d_step {
       fresh[0] = !hole[0] && (place[0] >= ENGINE) && (place[1] >= ENGINE);
       fresh[1] = !hole[1] && (place[1] >= ENGINE) && (place[2] >= ENGINE)
     };
     d_step { assert(!fresh[0] || (place[0] >= ENGINE && place[1] >= ENGINE)) }; /* the system call */
     d_step { assert(!fresh[1] || (place[1] >= ENGINE && place[2] >= ENGINE)) };
     take_lock();
     d_step {
       hole[0] = hole[0] || fresh[0];
       hole[1] = hole[1] || fresh[1];
       b = 0;
       do
       :: b < 3 ->
          if
#ifdef STRADDLER_STAYS
          :: place[b] == ENGINE && b == 1 && !(hole[0] && hole[1]) -> place[b] = LIST
#endif
          :: place[b] == ENGINE -> place[b] = (TOUCHES_HOLE(b) -> HOLE : LIST)
          :: else
          fi;
          b++
       :: else -> break
       od;
       b = 0;
       purging = false
     };
     drop_lock()
  od
}
