/* inbox.pml - the stack in which other threads send batches of blocks back to a heap.
 *
 * Models: src/heap/remote.c (push, take_inbox, drained_of, remote_take_batch, count_inbox, remote_steal) and how
 * src/heap/refill.c calls them (refill, adopt, put_sent_back), for one class.
 * Senders send batches of one or two blocks to a heap for ever. The threads of two heaps take batch
 * by batch under their heap's lock; who finds none tries the other's lock, and steals or takes
 * what little there is. A taken block is with the program at once, which writes over it, and any
 * sender may free it again while another still has it as the old head: the case in which a stack
 * with a single pop goes wrong (ABA).
 * Left out: where the taker puts the blocks (ownership.pml); the weak compare-and-swap's failure
 * without cause (a retry with the same word); memory orders (spin interleaves, it does not
 * reorder: ThreadSanitizer watches tests/stress for those).
 * Asserted: what is taken is one batch as it was sent, all of its blocks and no other, and its
 * count says how many; nobody changes a link of it while the taker walks it; nothing is stolen
 * onto a drained list that is not empty; whenever no operation is under way at a heap, its inbox and drained list
 * lead to each block that was sent there and not taken yet, none lost and none twice, and
 * inbox_bytes is how many these are.
 * Three blocks and two senders, who send to the first heap, and STEAL_BATCHES 1; FOUR_BLOCKS: four
 * blocks, one sender and STEAL_BATCHES 2, so that a part of a drained list is stolen; BOTH_WAYS: three
 * blocks and one sender, who sends to either heap, so that each steals from the other.
 *
 * check: states 1,450,589
 * check FOUR_BLOCKS: states 894,506
 * check BOTH_WAYS: states 178,677
 * mutant PUSH_IN_TWO_STEPS: assertion violated (load, then store, for the swap)
 * mutant COUNT_APART: assertion violated (the count is written when the batch is in the inbox)
 * mutant TAKE_IN_TWO_STEPS: assertion violated (load, then store NULL, for the exchange)
 * mutant TAKE_ONTO_PILE: assertion violated (the inbox is taken before the drained list is used up)
 * mutant TAKE_UNLOCKED: assertion violated (two take from one drained list)
 * mutant POP_ONE TAKE_UNLOCKED: assertion violated (takers pop single batches off the inbox: ABA)
 * mutant STEAL_UNLOCKED: assertion violated (without the lock of the heap stolen from)
 * mutant STEAL_UNCUT: assertion violated (the last stolen batch still leads to those that stay)
 * mutant FOUR_BLOCKS STEAL_WITHOUT_LOOK: assertion violated (the thief's own drained list is not empty)
 * mutant STEAL_UNCOUNTED: assertion violated (inbox_bytes stays with the other heap)
 */
#ifdef FOUR_BLOCKS
#define BLOCKS 4 /* numbered from 1; 0 is NULL */
#define STEAL_BATCHES 2
#else
#define BLOCKS 3
#define STEAL_BATCHES 1
#endif
#ifdef BOTH_WAYS
#define MAY_ADOPT(heap) true
#else
#define MAY_ADOPT(heap) (heap == 1)
#endif
#define GARBAGE (BLOCKS + 1) /* what the program writes into a block */

#define PROGRAM 0 /* places of a block */
#define SENDING 1
#define TAKEN 2
#define AT(heap) (3 + heap) /* in its inbox or drained list */

byte rest[BLOCKS + 2]; /* first word of a block: the next one of its batch */
byte next[BLOCKS + 2], count_in[BLOCKS + 2]; /* of a batch's first block: the second word */
byte inbox[2], pile[2];
short inbox_bytes[2];
bool locked[2];

/* For the assertions only. */
byte place[BLOCKS + 2];
byte batch[BLOCKS + 2]; /* first block of the batch that it is in */
byte under_way[2];      /* operations at a heap between their first and last step */
hidden byte i, j, blocks, seen;

/* --- checks ----------------------------------------------------------------------------------- */

inline check_batches(heap, first) {
  i = first;
  do
  :: i != 0 ->
     j = i;
     blocks = 0;
     do
     :: j != 0 ->
        assert(place[j] == AT(heap) && batch[j] == i && (seen & (1 << j)) == 0);
        seen = seen | (1 << j);
        blocks++;
        j = rest[j]
     :: else -> break
     od;
     assert(blocks == count_in[i]);
     i = next[i]
  :: else -> break
  od
}

inline check_heap(heap) {
  seen = 0;
  if
  :: under_way[heap] == 0 ->
     check_batches(heap, inbox[heap]);
     check_batches(heap, pile[heap]);
     i = 1;
     blocks = 0;
     do
     :: i <= BLOCKS ->
        assert((place[i] == AT(heap)) == ((seen >> i) & 1));
        blocks = blocks + ((seen >> i) & 1);
        i++
     :: else -> break
     od;
     assert(inbox_bytes[heap] == blocks)
  :: else
  fi
}

/* All blocks of a batch go from one place to another. */
inline move_batch(first, count, from, to) {
  i = first;
  blocks = 0;
  do
  :: i != 0 ->
     assert(place[i] == from && batch[i] == first);
     place[i] = to;
     blocks++;
     i = rest[i]
  :: else -> break
  od;
  assert(blocks == count);
  i = 1;
  do
  :: i <= BLOCKS ->
     assert(batch[i] != first || place[i] == to);
     batch[i] = (place[i] == TAKEN -> 0 : batch[i]);
     i++
  :: else -> break
  od
}

/* --- senders ---------------------------------------------------------------------------------- */

inline choose(block) {
  if
  :: place[1] == PROGRAM -> block = 1
  :: place[2] == PROGRAM -> block = 2
  :: place[3] == PROGRAM -> block = 3
#ifdef FOUR_BLOCKS
  :: place[4] == PROGRAM -> block = 4
#endif
  fi;
  place[block] = SENDING
}

#define SOME_WITH_PROGRAM                                                                          \
  (place[1] == PROGRAM || place[2] == PROGRAM || place[3] == PROGRAM || place[BLOCKS] == PROGRAM)

/* remote_free gathers a batch, push sends it. */
proctype sender() {
  byte head, count, old, to;
  do
  :: atomic {
       choose(head);
       rest[head] = 0;
       count = 1;
       if
       :: SOME_WITH_PROGRAM ->
          old = head;
          choose(head);
          rest[head] = old;
          batch[old] = head;
          count = 2
       :: true
       fi;
       batch[head] = head;
#ifndef COUNT_APART
       count_in[head] = count; /* with the link to the next batch, in one word */
#endif
#ifdef BOTH_WAYS
       if
       :: true
       :: to = 1
       fi;
#endif
       old = inbox[to];
       under_way[to]++
     };
link:
     next[head] = old;
#ifdef PUSH_IN_TWO_STEPS
     if
     :: inbox[to] != old -> atomic { old = inbox[to]; goto link }
     :: else
     fi;
#endif
     atomic {
#ifndef PUSH_IN_TWO_STEPS
       if
       :: inbox[to] != old -> old = inbox[to]; goto link
       :: else
       fi;
#endif
       d_step { inbox[to] = head; move_batch(head, count, SENDING, AT(to)) }
     };
#ifdef COUNT_APART
     count_in[head] = count;
#endif
     d_step {
       inbox_bytes[to] = inbox_bytes[to] + count;
       under_way[to]--;
       check_heap(to);
       head = 0;
       count = 0;
       old = 0;
       to = 0
     }
  od
}

/* --- the heaps' threads ----------------------------------------------------------------------- */

/* What is done under a lock is one step here: of it the others see the exchange alone, the rest
 * touches what the lock guards, or adds to inbox_bytes, as they do. The mutants in which they see
 * more have all the steps. */
#if defined(TAKE_UNLOCKED) || defined(STEAL_UNLOCKED) || defined(TAKE_IN_TWO_STEPS)
#define UNDER_LOCK
#else
#define UNDER_LOCK atomic
#endif

#ifdef TAKE_UNLOCKED
#define LOCK(heap) true
#else
#define LOCK(heap) !locked[heap] -> locked[heap] = true
#endif

inline lock_release(heap) { locked[heap] = false }

#ifdef TAKE_ONTO_PILE
#define NEEDS_MORE(heap) (inbox[heap] != 0)
#else
#define NEEDS_MORE(heap) (pile[heap] == 0 && inbox[heap] != 0)
#endif

/* drained_of; then `list` is the first batch. */
inline pile_of(heap) {
#ifdef TAKE_IN_TWO_STEPS
  d_step {
    list = (NEEDS_MORE(heap) -> inbox[heap] : 0);
    under_way[heap]++
  };
  d_step {
    if
    :: list != 0 -> inbox[heap] = 0; pile[heap] = list
    :: else -> list = pile[heap]
    fi;
    under_way[heap]--;
    check_heap(heap)
  }
#else
  d_step {
    if
    :: NEEDS_MORE(heap) -> pile[heap] = inbox[heap]; inbox[heap] = 0
    :: else
    fi;
    list = pile[heap];
    check_heap(heap)
  }
#endif
}

/* remote_take_batch; `list` is NULL when there is none. */
inline take_batch(heap) {
#ifdef POP_ONE
  d_step {
    list = inbox[heap];
    block = (list != 0 -> next[list] : 0);
    under_way[heap]++
  };
  d_step {
    if
    :: inbox[heap] == list -> inbox[heap] = block
    :: else -> list = 0
    fi;
    block = 0;
#else
  pile_of(heap);
  d_step {
    under_way[heap]++;
    pile[heap] = (list != 0 -> next[list] : 0);
#endif
    count = (list != 0 -> count_in[list] : 0);
    if
    :: list != 0 -> move_batch(list, count, AT(heap), TAKEN)
    :: else
    fi
  };
  d_step { inbox_bytes[heap] = inbox_bytes[heap] - count; under_way[heap]--; check_heap(heap) }
}

/* remote_steal; `list` is NULL when the other heap has too few batches. */
inline steal() {
  pile_of(other);
  d_step {
    block = list; /* the last batch that is stolen */
    count = (list != 0 -> count_in[list] : 0);
#if STEAL_BATCHES == 2
    block = (list != 0 -> next[list] : 0);
    list = (block != 0 -> list : 0);
    count = (block != 0 -> count + count_in[block] : 0);
#endif
    if
    :: list != 0 ->
       assert(pile[me] == 0);
       under_way[me]++;
       under_way[other]++;
       move_batch(list, count_in[list], AT(other), AT(me));
#if STEAL_BATCHES == 2
       move_batch(block, count_in[block], AT(other), AT(me));
#endif
       pile[other] = next[block];
#ifndef STEAL_UNCUT
       next[block] = 0;
#endif
       pile[me] = list
    :: else
    fi;
    block = 0
  };
  if
  :: list != 0 ->
     d_step {
#ifndef STEAL_UNCOUNTED
       inbox_bytes[other] = inbox_bytes[other] - count;
       inbox_bytes[me] = inbox_bytes[me] + count;
#endif
       under_way[me]--;
       under_way[other]--;
       check_heap(me);
       check_heap(other);
       count = 0
     }
  :: else
  fi
}

/* The caller holds its own lock. */
inline adopt() {
  if
#ifdef STEAL_UNLOCKED
  :: true;
#else
  :: atomic { LOCK(other) };
#endif
     UNDER_LOCK {
#ifndef POP_ONE
       steal();
#endif
       if
       :: list != 0 ->
          lock_release(other);
          take_batch(me);
          assert(list != 0)
       :: else ->
          take_batch(other); /* put_sent_back: and so on, until there is none */
          lock_release(other)
       fi
     }
  :: true /* no hint, or the try failed */
  fi
}

proctype heap_thread(byte me, other) {
  byte list, count, block;
  do
  :: UNDER_LOCK {
       LOCK(me);
#ifndef STEAL_WITHOUT_LOOK
       take_batch(me)
#endif
     };
     if
     :: list == 0 && MAY_ADOPT(me) -> adopt()
     :: else
     fi;
     lock_release(me);
     do
     :: list != 0 ->
        d_step {
          assert(place[list] == TAKEN && count > 0);
          count--;
          block = list;
          list = rest[block];
          place[block] = PROGRAM;
          rest[block] = GARBAGE;
          next[block] = GARBAGE;
          count_in[block] = GARBAGE;
          block = 0
        }
     :: else -> break
     od;
     assert(count == 0)
  od
}

init {
  atomic {
    run sender();
#if !defined(FOUR_BLOCKS) && !defined(BOTH_WAYS)
    run sender();
#endif
    run heap_thread(0, 1);
    run heap_thread(1, 0)
  }
}
