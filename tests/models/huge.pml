/* huge.pml - a huge block that two threads free at once, or one frees while another moves it.
 *
 * Models: src/front/front.c (front_free_slow), src/front/block.c (block_find), src/superslab/map.c
 * (map_set, map_claim, map_clear), src/superslab/huge.c (huge_acquire, huge_claim,
 * huge_release, huge_move, huge_resize, resize_claimed), src/superslab/superslab.c (superslab_new, slices_free),
 * src/superslab/descriptor.c (descriptor_new).
 * Two threads free the huge block at unit 1, which is the program's error; a third allocates and
 * frees SuperSlabs and huge blocks of one or two units, which reuse its unit and descriptor.
 * REALLOC: the second thread moves the block instead, which succeeds or fails, and frees it where
 * it is then. SHRINK: it gives the second of its two units back, and frees it then.
 * Left out: the lists and the figures (under superslab_lock); growing in place; which unit or
 * descriptor is reused (any free one may be).
 * Asserted: of the two one wins and the other is told, and then the program ends; until then the
 * third thread finds its blocks in the map and frees them; nothing is released, moved or shrunk
 * but a block that starts at the address that was freed; a unit or a descriptor is never free
 * twice.
 * Excused: a new block may start where the old one did; a late free of the old one is then a free
 * of the new one, which nobody can tell.
 *
 * check: states 1,218,243
 * check REALLOC: states 957,760
 * check SHRINK: states 154,364
 * mutant RELEASE_BY_DESCRIPTOR: assertion violated (clears the address that the descriptor names)
 * mutant CLAIM_IN_TWO_STEPS: assertion violated (load, then store 0)
 * mutant BASE_UNCHECKED: assertion violated (the winner does not look again)
 * mutant UNITS_FIRST: assertion violated (units are free before the map is cleared)
 * mutant REALLOC RESIZE_UNCLAIMED: assertion violated (moved whoever has it)
 * mutant REALLOC RESIZE_BY_DESCRIPTOR: assertion violated (claims what the descriptor names)
 * mutant REALLOC ENTERED_TWICE: assertion violated (free in between, then entered again)
 * mutant SHRINK RESIZE_UNCLAIMED: assertion violated (shrunk whoever has it)
 */
#define UNITS 3
#define DESCRIPTORS 3
#define NULL 7
#define ADDRESS 1 /* of block 1, which is freed twice; block 2: where it moves to */
#if defined(REALLOC) || defined(SHRINK)
#define BLOCKS 4 /* from 3 on: the third thread's */
#else
#define BLOCKS 5
#endif

byte map[UNITS];         /* descriptor + 1; 0: not ours */
byte base[DESCRIPTORS];  /* superslab->base */
byte units[DESCRIPTORS]; /* superslab->huge_units */
byte unused;             /* bits: descriptors free for reuse */
byte pool;               /* bits: units free for reuse */

/* For the assertions only. */
byte block_of[DESCRIPTORS]; /* 0: none */
byte base_of[BLOCKS];
bool released[BLOCKS];
bool excused; /* somebody is told, or could not be */
byte ended;

#define BIT(i) (1 << (i))
#define RANGE(first, count) (((1 << (count)) - 1) << (first))

/* --- allocation ------------------------------------------------------------------------------- */

/* huge_acquire, superslab_new: descriptor_new, unit_acquire, and map_set for block `number`. */
inline acquire(number, superslab, descriptor, first, count) {
  atomic {
    if
    :: unused & 1 -> descriptor = 0
    :: unused & 2 -> descriptor = 1
    :: unused & 4 -> descriptor = 2
    fi;
    unused = unused & ~BIT(descriptor)
  };
  d_step { base[descriptor] = NULL; units[descriptor] = 0 };
  atomic {
    if
    :: pool & 1 -> first = 0; count = 1
    :: pool & 2 -> first = 1; count = 1
    :: pool & 4 -> first = 2; count = 1
    :: !superslab && (pool & 3) == 3 -> first = 0; count = 2
    :: !superslab && (pool & 6) == 6 -> first = 1; count = 2
    fi;
    pool = pool & ~RANGE(first, count);
    base_of[number] = first;
    block_of[descriptor] = number
  };
  base[descriptor] = first;
  units[descriptor] = (superslab -> 0 : count);
  map[first] = descriptor + 1;
  if
  :: count == 2 -> map[first + 1] = descriptor + 1
  :: else
  fi
}

inline give_units(first, count) {
  d_step { assert((pool & RANGE(first, count)) == 0); pool = pool | RANGE(first, count) }
}

inline give_descriptor(descriptor) {
  d_step {
    assert((unused & BIT(descriptor)) == 0);
    block_of[descriptor] = 0;
    unused = unused | BIT(descriptor)
  }
}

/* --- free ------------------------------------------------------------------------------------- */

/* block_find; `found` is NULL when no huge block starts there. */
inline find(pointer) {
  found = (map[pointer] == 0 -> NULL : map[pointer] - 1);
  if
  :: found != NULL && units[found] == 0 -> found = NULL
  :: else
  fi;
  if
  :: found != NULL && base[found] != pointer -> found = NULL
  :: else
  fi
}

/* What thread `me` has out of the map is not what it was to free: it has to put it back. A
 * block of another at the same address it may keep. */
inline look_at_claim(freed) {
  if
  :: won && base_of[block_of[found]] != freed -> excused = true
  :: won && me < 3 && block_of[found] > 2 -> excused = true
  :: else
  fi
}

inline map_claim(unit, address) {
#ifdef CLAIM_IN_TWO_STEPS
  won = (map[unit] == found + 1);
  d_step {
#else
  d_step {
    won = (map[unit] == found + 1);
#endif
    map[unit] = (won -> 0 : map[unit]);
    look_at_claim(address)
  }
}

/* The winner's look at the descriptor; false: it is another's by now. */
inline check_claim(claimed) {
  if
  :: won ->
     won = (base[found] == claimed);
     won = (units[found] == 0 -> false : won);
     if
     :: !won -> map[claimed] = found + 1
     :: else
     fi
  :: else
  fi
}

inline check_release(pointer) {
  d_step {
    assert(block_of[found] != 0 && base_of[block_of[found]] == pointer);
    assert(!released[block_of[found]]);
    released[block_of[found]] = true
  }
}

inline map_clear(first, count) {
  map[first] = 0;
  if
  :: count == 2 -> map[first + 1] = 0
  :: else
  fi
}

inline release_claimed(pointer) {
  first = base[found];
  count = units[found];
  check_release(pointer);
#ifdef UNITS_FIRST
  give_units(first, count);
#endif
  map_clear(first, count);
  give_descriptor(found);
#ifndef UNITS_FIRST
  give_units(first, count)
#endif
}

inline huge_release(pointer) {
#ifdef RELEASE_BY_DESCRIPTOR
  first = base[found];
  assert(first != NULL); /* would write in front of the table */
  map_claim(first, pointer);
#else
  map_claim(pointer, pointer);
#ifndef BASE_UNCHECKED
  check_claim(pointer);
#endif
#endif
  if
  :: won -> release_claimed(pointer)
  :: else -> excused = true
  fi
}

/* --- realloc ---------------------------------------------------------------------------------- */

/* huge_resize of block 1, found before: claims it, does the work, and enters it again at the end.
 * `pointer`: where the program has it then, NULL when it was another's. */
inline claim_to_resize() {
#ifdef RESIZE_UNCLAIMED
  won = true;
#else
#ifdef RESIZE_BY_DESCRIPTOR
  first = base[found];
  assert(first != NULL);
  map_claim(first, ADDRESS);
#else
  map_claim(ADDRESS, ADDRESS);
  check_claim(ADDRESS);
#endif
#endif
  if
  :: won
  :: else -> excused = true; pointer = NULL
  fi
}

inline enter_again() {
  assert(base_of[block_of[found]] == ADDRESS && !released[block_of[found]]);
  map[ADDRESS] = found + 1
}

/* huge_move. */
inline huge_move() {
  claim_to_resize();
  if
  :: won -> enter_again() /* no memory to move to */
  :: won ->
     atomic { acquire(2, false, to, pointer, count) };
     if
     :: true -> /* the old address range is the kernel's then, and may be mapped again */
        map[ADDRESS] = 0;
        check_release(ADDRESS);
        give_units(ADDRESS, 1);
        give_descriptor(found)
     :: true -> /* the pages could not be moved */
#ifdef ENTERED_TWICE
        enter_again();
#endif
        atomic {
          map_clear(pointer, count);
          give_descriptor(to);
          give_units(pointer, count);
          pointer = ADDRESS
        };
#ifdef ENTERED_TWICE
        map[ADDRESS] = found + 1
#else
        enter_again()
#endif
     fi
  :: else
  fi
}

/* resize_claimed to one unit. */
inline huge_shrink() {
  claim_to_resize();
  if
  :: won ->
     count = units[found];
     if
     :: count == 2 ->
        units[found] = 1;
        map[ADDRESS + 1] = 0;
        give_units(ADDRESS + 1, 1)
     :: else
     fi;
     enter_again()
  :: else
  fi
}

/* --- threads ---------------------------------------------------------------------------------- */

proctype frees(byte me) {
  byte found, first, count, to, pointer = ADDRESS;
  bool won;
#if defined(REALLOC) || defined(SHRINK)
  if
  :: me == 2 ->
     find(ADDRESS);
     if
     :: found == NULL -> excused = true; pointer = NULL
#ifdef SHRINK
     :: else -> huge_shrink()
#else
     :: else -> huge_move()
#endif
     fi
  :: else
  fi;
#endif
  if
  :: pointer != NULL ->
     find(pointer);
     if
     :: found == NULL -> excused = true
     :: else -> huge_release(pointer)
     fi
  :: else
  fi;
  ended++
}

proctype bystander(byte me) {
  byte descriptor, found, first, count, where, block = 3;
  bool won, superslab;
  do
  :: block < BLOCKS && !excused ->
     if
     :: superslab = true
     :: superslab = false
     fi;
     acquire(block, superslab, descriptor, where, count);
     if
     :: superslab -> /* slices_free, when the last of its blocks has come back */
        d_step {
          assert(excused || map[where] == descriptor + 1);
          released[block] = true;
          map[where] = 0
        };
        give_units(where, 1);
        give_descriptor(descriptor)
     :: else ->
        find(where);
        assert(excused || found == descriptor);
        if
        :: !excused ->
           map_claim(where, where); /* huge_release, which never fails for a block of one's own */
           assert(excused || won);
           if
           :: won -> release_claimed(where)
           :: else
           fi
        :: else
        fi
     fi;
     block++
  :: block == BLOCKS || excused -> break
  od
}

init {
  atomic {
    map[ADDRESS] = 1;
    base[0] = ADDRESS;
    block_of[0] = 1;
    base_of[1] = ADDRESS;
#ifdef SHRINK
    map[ADDRESS + 1] = 1;
    units[0] = 2;
    pool = 1;
#else
    units[0] = 1;
    pool = 5;
#endif
    unused = 6;
    run frees(1);
    run frees(2);
    run bystander(3)
  };
  ended == 2;
  assert(excused)
}
