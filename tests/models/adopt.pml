/* adopt.pml - a slab of two slices changes its owner while its blocks are freed elsewhere.
 *
 * Models: src/heap/adopt.c (adopt_from, take_slab), src/superslab/map.c (map_set_bin), src/heap/remote.c (remote_free,
 * remote_send_list), src/heap/slabs.c (put_run, put_elsewhere, slabs_put_run), src/slab/slab.c (slab_release).
 * The map names the owner for each slice, and the new one is entered slice by slice. Two heaps adopt the slab from each other, put
 * back what was sent to them, and pass on what is not theirs (any more). A third thread frees a block of each slice, by what
 * the map said some time before. When both blocks are back, the owner may release the slab: then no slice has an owner.
 * ownership.pml has the same with slabs of one slice, and everything else that happens to blocks.
 * Asserted: a block goes into the slab's list only under the lock of the heap that owns the slab; each is in one place, and in the
 * end in the slab; the slab is released with both of its blocks; no block finds its slab without an owner; no deadlock.
 *
 * check: states 22,016
 * mutant ADOPT_UNLOCKED: assertion violated (the other heap's lock is not tried)
 * mutant PUT_UNCHECKED: assertion violated (what was sent here is put into the slab, whoever owns it)
 * mutant RELEASE_BY_HINT: assertion violated (released with a block still under way)
 */
#define NONE 0 /* owners: heap 1, heap 2 */
#define OTHER (3 - me)

#define PROGRAM 0 /* places of a block */
#define HANDS 1   /* with the thread that frees or sends it */
#define INBOX 2   /* + heap: 3, 4 */
#define SLAB 5

byte bin[2] = 1;     /* the map: owner by slice */
byte owner = 1;      /* for the assertions: whose list the slab is in */
byte place[2];       /* of the block in each slice */
bool lock[3];
bool released;
byte ended;

#define ALL_BACK (place[0] == SLAB && place[1] == SLAB)

/* remote_send_list, to the heap that was read from the map. */
inline send(b, to) {
  d_step { assert(to != NONE && place[b] == HANDS); place[b] = INBOX + to }
}

/* put_run for what came to this heap's inbox; its lock is held. */
inline put_back(b) {
  if
  :: place[b] == INBOX + me ->
     place[b] = HANDS;
     to = bin[b];
#ifdef PUT_UNCHECKED
     to = me;
#endif
     if
     :: to == me -> d_step { assert(owner == me && lock[me]); place[b] = SLAB }
     :: to != me -> send(b, to)
     fi;
     to = 0
  :: else
  fi
}

proctype heap(byte me) {
  byte to;
  bool got;
  do
  :: (place[0] == INBOX + me || place[1] == INBOX + me) ->
     atomic { !lock[me] -> lock[me] = true };
     put_back(0);
     put_back(1);
     lock[me] = false
  :: !ALL_BACK && !released -> /* adopt_from: its own lock, and a try for the other's */
     atomic { !lock[me] -> lock[me] = true };
#ifdef ADOPT_UNLOCKED
     got = true;
#else
     d_step { got = !lock[OTHER]; lock[OTHER] = true };
#endif
     if
     :: got && owner == OTHER && !released ->
        owner = me; /* out of the other's list */
        bin[0] = me;
        bin[1] = me
     :: else
     fi;
#ifndef ADOPT_UNLOCKED
     if
     :: got -> lock[OTHER] = false
     :: else
     fi;
#endif
     got = false;
     lock[me] = false
  :: !released -> /* the last block is back: slabs_give_up */
     atomic { !lock[me] -> lock[me] = true };
     if
#ifdef RELEASE_BY_HINT
     :: owner == me && (place[0] == SLAB || place[1] == SLAB) && !released ->
#else
     :: owner == me && ALL_BACK && !released ->
#endif
        d_step { assert(bin[0] == me && bin[1] == me) };
        bin[0] = NONE;
        bin[1] = NONE;
        d_step { assert(ALL_BACK); released = true }
     :: else
     fi;
     lock[me] = false
  :: released -> break
  od;
  ended++
}

proctype frees() {
  byte to, b;
  do
  :: b < 2 ->
     place[b] = HANDS;
     to = bin[b]; /* and some time later */
     send(b, to);
     to = 0;
     b++
  :: b == 2 -> break
  od;
  ended++
}

init {
  atomic { run heap(1); run heap(2); run frees() };
  ended == 3;
  assert(ALL_BACK)
}
