/* leaf.pml - the address map gets the leaf of a 4 GiB while others look up addresses there.
 *
 * Models: src/superslab/map.c (need_leaf, need_leaves, map_set, map_claim), src/superslab/map.h (map_index, map_superslab).
 * Two threads enter a unit each, both in the same 4 GiB, which has no leaf so far; so each may make one. Each looks its own up,
 * claims it and enters it again, as a Huge block that changes its size. A third thread looks both up again and again: a program
 * that guesses at addresses, and then one that got the pointer. The system may refuse the memory for a leaf.
 * Left out: runs of units across two leaves; the table of bins, which is written in the same way; memory orders (spin
 * interleaves and does not reorder: tests/schedule/map.c runs the code itself with those).
 * Asserted: a look-up never reads a leaf that is unmapped, and finds nothing or the descriptor, filled in; whoever has entered a unit
 * finds it, whatever the other does; at the end there is one leaf; the leaf of zeros stays one of zeros.
 *
 * check: states 17,101
 * mutant LEAF_IN_TWO_STEPS: assertion violated (load, then store: the other's leaf is replaced, with what was entered in it)
 * mutant LOSER_KEEPS_ITS_OWN: assertion violated (who makes a leaf too late enters its unit there)
 * mutant ENTERED_WITHOUT_A_LEAF: assertion violated (a refusal is passed over: the unit is entered in the leaf of zeros)
 * mutant UNMAPPED_BY_BOTH: assertion violated (the winner's leaf goes as well)
 * mutant ENTERED_FIRST: assertion violated (the entry is there before the descriptor is filled in)
 */
#define ZEROS 0 /* leaves: that of zeros, and what the kernel maps for thread 1 and 2 */
#define NONE 0  /* entries: of no unit; else the number of the thread that entered it */

byte root = ZEROS;   /* which leaf */
byte entry[6];       /* of leaf l and unit u: 2 * l + u - 1 */
bool mapped[3];
bool filled_in[3];   /* the descriptor of each thread's unit */
bool entered[3];     /* for the assertions: map_set has returned */
byte ended;

#define AT(leaf, unit) (2 * (leaf) + (unit) - 1)

/* The root is read, then the entry. */
inline look_up(unit) {
  leaf = root;
  d_step {
    assert(leaf == ZEROS || mapped[leaf]);
    found = entry[AT(leaf, unit)];
    leaf = 0
  }
}

inline need_leaf() {
  seen = root;
  if
  :: seen != ZEROS
  :: seen == ZEROS ->
     if
     :: mapped[_pid] = true;
#ifdef LEAF_IN_TWO_STEPS
        root = _pid
#else
        d_step {
          won = (root == ZEROS);
          root = (won -> _pid : root)
        };
        if
        :: won
        :: !won ->
#ifdef LOSER_KEEPS_ITS_OWN
           own = true
#else
           mapped[_pid] = false /* os_unmap_guarded */
#endif
        fi;
#ifdef UNMAPPED_BY_BOTH
        mapped[_pid] = false
#endif
#endif
     :: refused = true /* os_map_guarded */
     fi
  fi;
  seen = 0; won = false
}

inline set_unit() {
  leaf = (own -> _pid : root);
  d_step {
    assert(leaf == ZEROS || mapped[leaf]);
    entry[AT(leaf, _pid)] = _pid;
    assert(leaf != ZEROS);
    leaf = 0
  }
}

proctype enters() {
  byte seen, leaf, found;
  bool won, refused, own;
#ifdef ENTERED_FIRST
  need_leaf();
  if
  :: !refused -> set_unit()
  :: else
  fi;
  filled_in[_pid] = true;
#else
  filled_in[_pid] = true;
  need_leaf();
#ifdef ENTERED_WITHOUT_A_LEAF
  refused = false;
#endif
  if
  :: !refused -> set_unit()
  :: else
  fi;
#endif
  if
  :: !refused ->
     entered[_pid] = true;
     look_up(_pid);
     assert(found == _pid);
     /* map_claim, and map_set again */
     entered[_pid] = false;
     leaf = root;
     d_step {
       assert(entry[AT(leaf, _pid)] == _pid);
       entry[AT(leaf, _pid)] = NONE;
       leaf = 0
     };
     set_unit();
     entered[_pid] = true
  :: else
  fi;
  found = 0;
  ended++
}

proctype looks() {
  byte leaf, found, unit;
  bool knows;
  do
  :: ended < 2 ->
     if
     :: unit = 1
     :: unit = 2
     fi;
     knows = false;
     if
     :: entered[unit] -> knows = true
     :: true
     fi;
     leaf = root;
     d_step {
       assert(leaf == ZEROS || mapped[leaf]);
       found = entry[AT(leaf, unit)];
       assert(found == NONE || (found == unit && filled_in[unit]));
       assert(found == unit || !knows || !entered[unit]); /* not while it is claimed */
       found = 0;
       leaf = 0
     }
  :: ended == 2 -> break
  od
}

init {
  byte unit = 1;
  atomic { run enters(); run enters(); run looks() };
  ended == 2;
  d_step {
    assert(entry[0] == NONE && entry[1] == NONE);
    assert(mapped[1] + mapped[2] <= 1);
    assert(root == ZEROS || mapped[root]);
    do
    :: unit < 3 ->
       assert(!entered[unit] || (root != ZEROS && entry[AT(root, unit)] == unit));
       unit++
    :: else -> break
    od
  }
}
