/* sampling.pml - records of samples, and a tool that reads them from outside while they change.
 *
 * Models: src/sample/records.c (record_add, record_remove, record_resize, begin_write, end_write), src/sample/sample.c
 * (sample_allocate, sample_free, sample_lift, sample_put_back), tools/profile.c (is_whole, settle).
 * Two threads allocate, free and resize blocks for ever, samples at once, each in a slot of its own; their records come off one
 * list of free ones, under the lock of heap_samples. A tool copies a record twice, word by word, and takes it for whole by the version
 * in both copies.
 * Left out: buckets (a record is found by its address), chunks, stacks and totals; that a resize of a Large block takes the record
 * out and puts it back (an add after a remove); memory orders (tests/schedule/records.c runs the code itself with
 * those); that versions start again at 0 after 2^31 changes (here after 10: nobody sleeps for so many while it reads, here
 * the tool is refused that).
 * Asserted: each block that is a sample has one record and no other block has it; a record is free or in use, not both; what the
 * tool takes for whole is what some sample had at one moment: address, size and weight belong together.
 *
 * check: states 2,384,141
 * mutant FIELDS_FIRST: assertion violated (the version is odd only after the fields have changed)
 * mutant VERSION_ONCE: assertion violated (the version is not looked at again)
 * mutant ODD_IS_WHOLE: assertion violated (a version that did not change is enough)
 * mutant UNLOCKED: assertion violated (two threads take records off the list at once)
 */
#define RECORDS 2
#define VERSIONS 10
#define NONE 0

byte version[RECORDS], address[RECORDS], size[RECORDS], weight[RECORDS];
bool is_free[RECORDS] = true;
bool lock;
byte changes; /* while the tool reads; so few that a version does not come back */

#define WEIGHT(bytes) (bytes + 4) /* what belongs to a size */

#ifdef UNLOCKED
#define TAKE skip
#define GIVE skip
#else
#define TAKE atomic { !lock -> lock = true }
#define GIVE lock = false
#endif

inline step_version(r) {
  d_step { version[r] = (version[r] + 1) % VERSIONS }
}

inline begin_write(r) {
#ifndef FIELDS_FIRST
  step_version(r)
#else
  skip
#endif
}

inline end_write(r) {
#ifdef FIELDS_FIRST
  step_version(r);
#endif
  step_version(r)
}

active [2] proctype thread() {
  byte r = RECORDS, bytes, mine;
  mine = _pid + 1; /* the address of its block */
endless:
  do
  :: r == RECORDS && changes < 1 -> /* record_add */
     TAKE;
     if
     :: is_free[0] -> r = 0
     :: !is_free[0] -> r = 1
     fi;
     d_step { assert(is_free[r]); is_free[r] = false };
     begin_write(r);
     address[r] = mine;
     bytes = mine;
     size[r] = bytes;
     weight[r] = WEIGHT(bytes);
     end_write(r);
     changes++;
     assert(address[r] == mine);
     GIVE
  :: r < RECORDS && changes < 1 -> /* record_resize: one byte more, or one less again */
     TAKE;
     assert(address[r] == mine && !is_free[r]);
     bytes = (bytes == mine -> mine + 2 : mine);
     begin_write(r);
     size[r] = bytes;
     weight[r] = WEIGHT(bytes);
     end_write(r);
     changes++;
     GIVE
  :: r < RECORDS && changes < 1 -> /* record_remove */
     TAKE;
     assert(address[r] == mine && size[r] == bytes);
     begin_write(r);
     address[r] = NONE;
     end_write(r);
     changes++;
     d_step { assert(!is_free[r]); is_free[r] = true };
     r = RECORDS;
     bytes = 0;
     GIVE
  od
}

active proctype tool() {
  byte v, a, s, w, after;
endless:
  do
  :: d_step { changes = 0; after = 0 };
     v = version[0];
     a = address[0];
     s = size[0];
     w = weight[0];
#ifdef VERSION_ONCE
     after = v;
#else
     after = version[0];
#endif
     d_step {
       if
#ifdef ODD_IS_WHOLE
       :: v == after && a != NONE ->
#else
       :: v == after && v % 2 == 0 && a != NONE ->
#endif
          assert(w == WEIGHT(s));
          assert(s == a || s == a + 2)
       :: else
       fi;
       v = 0; a = 0; s = 0; w = 0
     }
  od
}

