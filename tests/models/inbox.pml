/* inbox.pml - the stack in which other threads send blocks back to a heap.
 *
 * Models: src/front/remote.c (push, remote_take, chain_length), the inbox of one class of one
 * heap.
 * Senders push chains of one or two blocks for ever; takers (the heap's owner, an adopter) take
 * all. A taken block is with the program at once, so that any sender may free it again while
 * another still has it as the old head: the case in which a stack with a single pop goes wrong
 * (ABA).
 * Left out: the heap's lock round the take (it is not needed for this, and without it there is
 * more to go wrong); the weak compare-and-swap's failure without cause (a retry with the same
 * word); memory orders (spin interleaves, it does not reorder: ThreadSanitizer watches
 * tests/stress for those).
 * Asserted: a take gets a chain of exactly the blocks that were sent and not taken yet, none lost
 * and none twice; nobody changes a link of it while the taker walks it; the count in the word is
 * the chain's length, or saturated, and the counted length is right then; inbox_bytes is what the
 * inbox holds whenever no push or take is under way.
 * Three blocks, three senders and one taker; TWO_TAKERS: two and two; FOUR_BLOCKS: two senders and
 * one taker, so that both senders can have a chain of two.
 *
 * check: states 446,133
 * check TWO_TAKERS: states 302,494
 * check FOUR_BLOCKS: states 687,281
 * mutant TAKE_IN_TWO_STEPS: assertion violated (load, then store 0, for the exchange)
 * mutant PUSH_IN_TWO_STEPS: assertion violated (load, then store, for the swap)
 * mutant COUNT_APART: assertion violated (the count in a word of its own)
 * mutant POP_ONE TWO_TAKERS: assertion violated (takers pop single blocks: ABA)
 */
#ifdef FOUR_BLOCKS
#define BLOCKS 4 /* numbered from 1; 0 is NULL */
#else
#define BLOCKS 3
#endif
#define COUNT_MAX (BLOCKS - 1) /* saturates below the number of blocks */

#define PROGRAM 0 /* places of a block */
#define SENDING 1
#define INBOX 2
#define TAKEN 3

byte next[BLOCKS + 1]; /* the link in the block's first word */
byte word_head, word_count; /* the inbox word: the two are read and written together */
short inbox_bytes;

/* For the assertions only. */
byte place[BLOCKS + 1];
byte under_way; /* pushes and takes between their first and last step */
hidden byte i, blocks;

/* The chain from `head` is all blocks that are in the inbox, and no other; `count` counts them. */
inline check_chain(head, count) {
  i = head;
  blocks = 0;
  do
  :: i != 0 ->
     assert(place[i] == INBOX);
     place[i] = TAKEN;
     blocks++;
     i = next[i]
  :: else -> break
  od;
  assert(count == (blocks < COUNT_MAX -> blocks : COUNT_MAX));
  i = 1;
  do
  :: i <= BLOCKS -> assert(place[i] != INBOX); i++
  :: else -> break
  od
}

inline check_bytes() {
  i = 1;
  blocks = 0;
  do
  :: i <= BLOCKS -> blocks = blocks + (place[i] == INBOX -> 1 : 0); i++
  :: else -> break
  od;
  assert(under_way > 0 || inbox_bytes == blocks)
}

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

/* remote_free gathers a chain, push sends it. */
proctype sender() {
  byte head, tail, count, old_head, old_count, total;
  do
  :: atomic {
       choose(tail);
       head = tail;
       count = 1;
       if
       :: SOME_WITH_PROGRAM -> choose(head); next[head] = tail; count = 2
       :: true
       fi;
       old_head = word_head;
       old_count = word_count;
       under_way++
     };
link:
     next[tail] = old_head;
#ifdef PUSH_IN_TWO_STEPS
     if
     :: word_head != old_head || word_count != old_count ->
        atomic { old_head = word_head; old_count = word_count; goto link }
     :: else
     fi;
#endif
     atomic {
#ifndef PUSH_IN_TWO_STEPS
       if
       :: word_head != old_head || word_count != old_count ->
          old_head = word_head;
          old_count = word_count;
          goto link
       :: else
       fi;
#endif
       total = old_count + count;
       word_head = head;
#ifndef COUNT_APART
       word_count = (total > COUNT_MAX -> COUNT_MAX : total);
#endif
       place[head] = INBOX;
       place[tail] = INBOX;
       head = 0;
       tail = 0;
       old_head = 0
     };
#ifdef COUNT_APART
     word_count = (total > COUNT_MAX -> COUNT_MAX : total);
#endif
     d_step {
       inbox_bytes = inbox_bytes + count;
       under_way--;
       check_bytes();
       old_count = 0;
       total = 0;
       count = 0
     }
  od
}

/* remote_take; then each block goes to the program. */
proctype taker() {
  byte list, count, block;
  do
  :: atomic {
       word_head != 0 -> /* the plain look: an empty inbox is not taken from */
       under_way++;
#if defined(POP_ONE) || defined(TAKE_IN_TWO_STEPS)
       list = word_head;
       count = word_count
#endif
     };
#ifdef POP_ONE
     block = next[list];
     d_step {
       if
       :: word_head == list && word_count == count ->
          word_head = block;
          word_count--;
          next[list] = 0;
          assert(place[list] == INBOX && (block == 0 || place[block] == INBOX));
          place[list] = TAKEN;
          count = 1
       :: else -> list = 0; count = 0
       fi
     };
#else
     d_step {
#ifndef TAKE_IN_TWO_STEPS
       list = word_head;
       count = word_count;
#endif
       word_head = 0;
       word_count = 0;
       check_chain(list, count);
       if
       :: count == COUNT_MAX -> count = blocks /* chain_length */
       :: else
       fi;
     };
#endif
     d_step { inbox_bytes = inbox_bytes - count; under_way--; check_bytes() };
     do
     :: list != 0 ->
        block = next[list];
        d_step {
          assert(place[list] == TAKEN && count > 0);
          count--;
          place[list] = PROGRAM;
          next[list] = 0;
          list = block;
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
    run sender();
    run taker();
#ifdef TWO_TAKERS
    run taker()
#else
#ifndef FOUR_BLOCKS
    run sender()
#endif
#endif
  }
}
