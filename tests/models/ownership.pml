/* ownership.pml - who owns a slab, and where its blocks are.
 *
 * Models: src/front/fast.h (front_free), src/heap/bins.h (bin_pop), src/front/front.c (free_small),
 * src/heap/remote.c (remote_free, remote_free_now), src/heap/refill.c (refill), src/heap/adopt.c
 * (adopt_slabs, take_slabs), src/heap/slabs.c (put_run, slabs_give_up), src/heap/bins.c (bin_overflow), src/release/release.c (release_purge).
 * Two threads with heaps allocate, free any block the program has, overflow and adopt from each
 * other for ever; a third thread without a heap frees and purges. One size class.
 * Left out: the order of blocks in a list (a list is a set of bits); the inside of push, take and
 * steal (inbox.pml); drained lists: a take gets all that was sent, and what is stolen, blocks of another's
 * slab in the own bin, is as after an adoption; slabs are carved whole; which heaps look worth
 * adopting (any may); parked heaps, whose bins are adopted too (park.pml); map entries of slabs of
 * several slices, which get the new owner one after the other (a free that sees an old one is the
 * stale look that is modelled).
 * Asserted: each block of a slab in use is in exactly one place at every step; a slab is released
 * only when all its blocks are in its list; a slab's list and owner are written only under the
 * lock of the heap that owns it; a block never finds its slab without owner; no deadlock.
 *
 * check: states 2,420,340
 * mutant ADOPT_UNLOCKED: assertion violated (without the other heap's lock)
 * mutant ADOPT_WAITS: invalid end state (waits for the other's lock, holding its own)
 * mutant PUT_UNCHECKED: assertion violated (a block goes to its slab whoever owns it)
 * mutant RELEASE_BY_HINT: assertion violated (a slab goes with blocks still out)
 */
#define SLABS 2
/* A slab of two blocks, bits 1 and 2, and one of one block, bit 4. */
#define ALL(slab) (slab == 0 -> 3 : 4)
#define SLAB_OF(block) (block >> 2)
#define NONE 0
#define OTHER (3 - me)

byte owner[SLABS];     /* map_bins of its slices: heap 1 or 2, NONE when released */
byte slab_list[SLABS]; /* slab->free_list */
byte bin[3], inbox[3]; /* of heaps 1 and 2 */
byte program;          /* blocks that the program has */
byte outgoing[3];      /* of heaps 1 and 2: blocks gathered for the other of the two */
byte hand[4];          /* blocks that a thread has in its hands, between two places */
byte held_by[3];       /* heap->lock: thread, or NONE */

#define EXISTING ((owner[0] != NONE -> ALL(0) : 0) | (owner[1] != NONE -> ALL(1) : 0))
#define PLACES(op)                                                                                 \
  (program op bin[1] op bin[2] op inbox[1] op inbox[2] op outgoing[1] op outgoing[2] op            \
       slab_list[0] op slab_list[1] op hand[1] op hand[2] op hand[3])
/* As a sum and as a union: then no bit is there twice. */
#define EACH_IN_ONE_PLACE (PLACES(|) == EXISTING && PLACES(+) == EXISTING)

inline choose(block, set) {
  if
  :: set & 1 -> block = 1
  :: set & 2 -> block = 2
  :: set & 4 -> block = 4
  fi
}

/* The thread may write the slab's owner and list. */
#define MAY_WRITE(slab) (owner[slab] != NONE && held_by[owner[slab]] == me)

/* The steps below that join several of the code's do so only where the others cannot see the
 * difference: data of the thread itself, or under a lock, which MAY_WRITE checks. */

inline lock_release(heap) { assert(held_by[heap] == me); held_by[heap] = NONE }

inline take_inbox(heap) {
  hand[me] = hand[me] | inbox[heap];
  inbox[heap] = 0;
  assert(EACH_IN_ONE_PLACE)
}

inline lock_and_take_inbox(heap) {
  atomic { held_by[heap] == NONE -> held_by[heap] = me; take_inbox(heap) }
}

inline push(heap, block) {
  assert(heap != NONE);
  inbox[heap] = inbox[heap] | block;
  hand[me] = hand[me] & ~block;
  assert(EACH_IN_ONE_PLACE)
}

inline release(slab) {
  assert(MAY_WRITE(slab) && slab_list[slab] == ALL(slab));
  owner[slab] = NONE;
  slab_list[slab] = 0;
  assert(EACH_IN_ONE_PLACE)
}

/* put_run for each block in hand; the caller holds heap's lock. */
inline put_list(heap) {
  do
  :: hand[me] != 0 ->
     atomic {
       choose(block, hand[me]);
       seen = owner[SLAB_OF(block)];
       if
#ifndef PUT_UNCHECKED
       :: seen != heap /* it changed owners while the block was under way: see below */
       :: seen == heap ->
#else
       :: true ->
#endif
          slab = SLAB_OF(block);
          assert(MAY_WRITE(slab));
          slab_list[slab] = slab_list[slab] | block;
          hand[me] = hand[me] & ~block;
          block = 0;
          assert(EACH_IN_ONE_PLACE);
          if
#ifdef RELEASE_BY_HINT
          :: true -> release(slab)
#else
          :: slab_list[slab] == ALL(slab) -> release(slab)
#endif
          :: true /* the last slab of the class stays */
          fi;
          slab = 0
       fi
     };
     if
     :: block != 0 -> atomic { push(seen, block); block = 0 }
     :: else
     fi
  :: else -> break
  od;
  seen = NONE
}

inline release_if_empty(heap, slab) {
  if
  :: owner[slab] == heap && slab_list[slab] == ALL(slab) -> release(slab)
  :: else
  fi
}

/* A slab with free blocks changes hands; the caller holds its own lock and the other's. */
inline take_slab(slab) {
  if
  :: owner[slab] == OTHER && slab_list[slab] != 0 ->
#ifndef ADOPT_UNLOCKED
     assert(MAY_WRITE(slab));
#endif
     owner[slab] = me
  :: else
  fi
}

/* The hints that a heap sleeps are right or wrong: any choice. The caller holds its own lock. */
inline adopt() {
  if
#ifdef ADOPT_UNLOCKED
  :: atomic { true -> take_inbox(OTHER) };
#else
#ifdef ADOPT_WAITS
  :: lock_and_take_inbox(OTHER);
#else
  :: atomic { held_by[OTHER] == NONE -> held_by[OTHER] = me; take_inbox(OTHER) };
#endif
#endif
     put_list(OTHER);
     atomic {
       take_slab(0);
       take_slab(1);
#ifndef ADOPT_UNLOCKED
       lock_release(OTHER)
#endif
     }
#ifndef ADOPT_WAITS
  :: true /* no hint, or the try failed */
#endif
  fi
}

inline take_list(slab) {
  assert(MAY_WRITE(slab));
  hand[me] = hand[me] | slab_list[slab];
  slab_list[slab] = 0;
  assert(EACH_IN_ONE_PLACE)
}

inline take_from_slabs() {
  atomic {
    if
    :: owner[0] == me && slab_list[0] != 0 -> take_list(0)
    :: owner[1] == me && slab_list[1] != 0 -> take_list(1)
    :: else
    fi
  }
}

/* slab_new and slab_carve; no memory when both slabs are in use. One step by superslab_lock. */
inline add_slab() {
  atomic {
    if
    :: owner[0] == NONE -> owner[0] = me; hand[me] = ALL(0)
    :: owner[1] == NONE -> owner[1] = me; hand[me] = ALL(1)
    :: else
    fi;
    assert(EACH_IN_ONE_PLACE)
  }
}

inline refill() {
  lock_and_take_inbox(me);
  if
  :: hand[me] == 0 ->
     take_from_slabs();
     if
     :: hand[me] == 0 ->
        adopt();
        take_from_slabs();
        if
        :: hand[me] == 0 -> add_slab()
        :: else
        fi
     :: else
     fi
  :: else
  fi;
  atomic {
    lock_release(me);
    bin[me] = hand[me];
    hand[me] = 0;
    assert(EACH_IN_ONE_PLACE)
  }
}

inline overflow() {
  atomic { held_by[me] == NONE -> held_by[me] = me; hand[me] = bin[me]; bin[me] = 0 };
  put_list(me);
  lock_release(me)
}

inline look_at_block() {
  choose(block, program);
  program = program & ~block;
  hand[me] = block;
  seen = owner[SLAB_OF(block)];
  assert(seen != NONE)
}

/* free(): the look at the map, then, however much later, the block goes where the look said. */
inline free_block() {
  atomic {
    look_at_block();
    if
    :: seen != me -> outgoing[me] = outgoing[me] | block; hand[me] = 0; block = 0; seen = NONE
    :: else
    fi;
    assert(EACH_IN_ONE_PLACE)
  };
  if
  :: block != 0 ->
     atomic {
       bin[me] = bin[me] | block;
       hand[me] = 0;
       block = 0;
       seen = NONE;
       assert(EACH_IN_ONE_PLACE)
     }
  :: else
  fi
}

inline send() {
  atomic {
    inbox[OTHER] = inbox[OTHER] | outgoing[me];
    outgoing[me] = 0;
    assert(EACH_IN_ONE_PLACE)
  }
}

proctype heap_thread(byte me) {
  byte block, slab, seen;
  do
  :: bin[me] != 0 -> /* malloc */
     atomic {
       choose(block, bin[me]);
       bin[me] = bin[me] & ~block;
       program = program | block;
       block = 0;
       assert(EACH_IN_ONE_PLACE)
     }
  :: bin[me] == 0 -> refill()
  :: bin[me] != 0 -> overflow()
  :: program != 0 -> free_block()
  :: outgoing[me] != 0 -> send()
  od
}

proctype heapless_thread(byte me) {
  byte block, slab, seen, heap;
  do
  :: program != 0 -> /* remote_free_now */
     atomic { look_at_block(); assert(EACH_IN_ONE_PLACE) };
     atomic { push(seen, block); block = 0; seen = NONE }
  :: true ->
     heap = 1;
     do
     :: heap <= 2 -> /* release_purge */
        lock_and_take_inbox(heap);
        put_list(heap);
        atomic {
          release_if_empty(heap, 0);
          release_if_empty(heap, 1);
          lock_release(heap);
          heap++
        }
     :: else -> heap = 0; break
     od
  od
}

init { atomic { run heap_thread(1); run heap_thread(2); run heapless_thread(3) } }
