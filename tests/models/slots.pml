/* slots.pml - the purger empties the slots of a thread that may come back to them at any moment.
 *
 * Models: src/heap/slots.h (slots_enter, slots_leave), src/heap/slots.c (slots_take_back, slots_claim, slots_send_claimed, may_send),
 * src/release/release.c (scan_unsent), src/os/thread.c (os_fence_threads).
 * A thread frees BLOCKS blocks into one slot, which is full with two; the purger looks twice. What the thread stores lies in its
 * processor's buffer, from which it comes to memory in order, at any later time; its loads pass by that. The fence empties the buffer, and
 * so does the thread when it takes the lock.
 * Left out: several slots and heaps (a claim is for all of a heap's); the inbox (inbox.pml); the end of the thread, which enters
 * as for any free; processors that also let loads and stores of other words pass each other, which acquire and release forbid here.
 * Asserted: no block is lost or sent twice; no deadlock.
 *
 * check: states 24,844
 * mutant NO_FENCE: assertion violated (the purger looks without one)
 * mutant FENCE_FIRST: assertion violated (the fence comes before the claim)
 * mutant LOOKS_FIRST: assertion violated (the thread looks for a claim before it says that it is there)
 * mutant NO_SECOND_LOOK: assertion violated (the purger sends though the claim was taken back)
 * mutant NO_LOCK: assertion violated (the thread takes a claim back without the lock)
 * mutant LEAVES_FIRST: assertion violated (the thread leaves before what it did to the slot is seen)
 */
#define BLOCKS 3
#define LOOKS 2
#define FULL 2

#define IN_SLOTS 0 /* what a store in the buffer is to */
#define SLOT 1

bool in_slots, claimed, locked;
byte slot; /* blocks in it */
byte sent; /* by both; an atomic counter */

chan buffer = [4] of {bit, byte}; /* the thread's stores that are not in memory yet */
byte mine;                        /* the slot as the thread sees it, while `own` of its stores are in the buffer */
byte own;
bool engine_has_ended;

inline drain_one() {
  buffer?what, value;
  if
  :: what == IN_SLOTS -> in_slots = value
  :: else -> slot = value; own--
  fi
}

inline store_in_slots(to) { buffer!IN_SLOTS, to }

inline read_slot(into) { d_step { into = (own > 0 -> mine : slot) } }

inline store_slot(to) { atomic { buffer!SLOT, to; mine = to; own++ } }

active proctype processor() {
  bit what;
  byte value;
endless:
  do
  :: atomic { nempty(buffer) -> drain_one() }
  od
}

active proctype thread() {
  byte left = BLOCKS, count;
  bool seen;
  do
  :: left == 0 -> break
  :: else ->
     /* slots_enter, and slots_take_back */
     do
     ::
#ifdef LOOKS_FIRST
        seen = claimed;
        store_in_slots(1);
#else
        store_in_slots(1);
        seen = claimed;
#endif
        if
        :: !seen -> break
        :: else
        fi;
        store_in_slots(0);
#ifndef NO_LOCK
        atomic { !locked && empty(buffer) -> locked = true };
#endif
        claimed = false;
#ifndef NO_LOCK
        locked = false
#endif
     od;
     read_slot(count);
     count++;
     left--;
#ifdef LEAVES_FIRST
     store_in_slots(0);
#endif
     if
     :: count == FULL -> store_slot(0); sent = sent + count
     :: else -> store_slot(count)
     fi;
#ifndef LEAVES_FIRST
     store_in_slots(0)
#endif
  od;
  /* No block is anywhere else once nobody works. */
  empty(buffer) && engine_has_ended -> assert(slot + sent == BLOCKS)
}



inline fence() {
  atomic {
    do
    :: nempty(buffer) -> drain_one()
    :: empty(buffer) -> break
    od
  }
}

active proctype engine() {
  byte looks = LOOKS, count, value;
  bit what;
  bool may;
  do
  :: looks == 0 -> break
  :: else ->
     looks--;
#ifdef FENCE_FIRST
     fence();
     claimed = true;
#else
     claimed = true;
#ifndef NO_FENCE
     fence();
#endif
#endif
     atomic { !locked -> locked = true };
     /* may_send; the two looks are two steps */
#ifdef NO_SECOND_LOOK
     may = true;
#else
     may = claimed;
#endif
     may = may && !in_slots;
     if
     :: may ->
        count = slot;
        sent = sent + count;
        slot = 0
     :: else
     fi;
     claimed = false;
     locked = false
  od;
  engine_has_ended = true
}
