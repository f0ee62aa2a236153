/* large.pml - a Large block that two threads free at once.
 *
 * Models: src/front/front.c (front_free_slow), src/front/block.c (block_find), src/large/large.c
 * (large_free), span_cache.c (span_cache_take), src/superslab/superslab.c (span_acquire, span_release).
 * Two threads free the Large block in slice 1, which is the program's error. The winner keeps it
 * in its cache for as long as it likes, then hands it out again or releases it; a third thread
 * acquires and releases slabs and Large blocks of one or two slices, which reuse the slice.
 * Left out: SuperSlabs that become empty (huge.pml has the same for units); caches of several
 * spans.
 * Asserted: of the two one wins and the other is told, and then the program ends; until then the
 * third thread finds its span as it made it, and frees it; slices are never free twice.
 * Excused: a new block may start in the same slice (huge.pml says why nobody can tell).
 *
 * check: states 151,070
 * mutant CLAIM_IN_TWO_STEPS: assertion violated (load, then store)
 * mutant OFFSET_UNCHECKED: assertion violated (the winner does not look again)
 */
#define SLICES 3
#define ADDRESS 1
#define ROUNDS 2

#define FREE 0 /* enum slab_kind */
#define SLAB 1
#define LARGE 2
#define CACHED 3

byte kind[SLICES], offset[SLICES], slices[SLICES]; /* of the descriptors */
byte free_mask;

/* For the assertions only. */
byte block_of[SLICES]; /* 1: the one in question; 2 and more: the third thread's; 0: none */
bool excused;          /* somebody is told, or could not be */
byte ended;

#define BIT(i) (1 << (i))
#define RANGE(first, count) (((1 << (count)) - 1) << (first))

/* slices_free, under superslab_lock. */
inline span_release(first) {
  count = slices[first];
  d_step {
    assert((free_mask & RANGE(first, count)) == 0);
    assert(block_of[first] != 0 && block_of[first + count - 1] == block_of[first]);
    assert(first == 0 || block_of[first - 1] != block_of[first]);
    free_mask = free_mask | RANGE(first, count);
    kind[first] = FREE;
    block_of[first] = 0;
    kind[first + count - 1] = FREE;
    block_of[first + count - 1] = 0
  }
}

/* large_free's compare-and-swap: `won` says whether the caller has it now. */
inline claim(first) {
#ifdef CLAIM_IN_TWO_STEPS
  won = (kind[first] == LARGE);
  d_step {
#else
  d_step {
    won = (kind[first] == LARGE);
#endif
    kind[first] = (won -> CACHED : kind[first]);
    excused = (won && me < 3 && block_of[first] != 1 -> true : excused)
  }
}

/* The winner's look at the descriptor; false: it is inside another's block by now. */
inline check_claim(first) {
  if
  :: won && offset[first] != 0 -> kind[first] = LARGE; won = false
  :: else
  fi
}

proctype frees(byte me) {
  byte seen, count;
  bool won;
  seen = kind[ADDRESS]; /* block_find */
  if
  :: seen == LARGE && offset[ADDRESS] == 0 ->
     claim(ADDRESS);
#ifndef OFFSET_UNCHECKED
     check_claim(ADDRESS);
#endif
     if
     :: won ->
        if
        :: span_release(ADDRESS)
        :: kind[ADDRESS] = LARGE; excused = true /* span_cache_take: a new block at the address */
        fi
     :: else -> excused = true
     fi
  :: else -> excused = true
  fi;
  ended++
}

proctype bystander(byte me) {
  byte first, count, block = 2, use;
  bool won;
  do
  :: block < ROUNDS + 2 && !excused ->
     atomic { /* span_acquire, under superslab_lock */
       if
       :: use = SLAB
       :: use = LARGE
       fi;
       if
       :: free_mask & 1 -> first = 0; count = 1
       :: free_mask & 2 -> first = 1; count = 1
       :: free_mask & 4 -> first = 2; count = 1
       :: (free_mask & 3) == 3 -> first = 0; count = 2
       :: (free_mask & 6) == 6 -> first = 1; count = 2
       fi;
       free_mask = free_mask & ~RANGE(first, count);
       slices[first] = count;
       block_of[first] = block;
       block_of[first + count - 1] = block;
       offset[first] = 0
     };
     kind[first] = use;
     if
     :: count == 2 -> offset[first + 1] = 1; kind[first + 1] = use
     :: else
     fi;
     d_step {
       assert(excused || (kind[first] == use && kind[first + count - 1] == use));
       assert(excused || (slices[first] == count && block_of[first] == block))
     };
     if
     :: !excused && use == LARGE -> claim(first); assert(excused || won)
     :: else
     fi;
     if
     :: !excused -> span_release(first)
     :: else
     fi;
     block++
  :: block == ROUNDS + 2 || excused -> break
  od
}

init {
  atomic {
    free_mask = 5;
    kind[ADDRESS] = LARGE;
    slices[ADDRESS] = 1;
    block_of[ADDRESS] = 1;
    run frees(1);
    run frees(2);
    run bystander(3)
  };
  ended == 2;
  assert(excused)
}
