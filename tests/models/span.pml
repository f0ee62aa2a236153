/* span.pml - cached Large blocks lose their pages while their thread may want them back.
 *
 * Models: src/large/large.c (large_free), span_cache.c (claim, claim_and_release, span_cache_take, span_cache_claim_old,
 * span_cache_decommitted), src/release/release.c (scan_spans).
 * A thread allocates, frees, takes again from its cache and evicts one span for ever; the purger, which
 * has read the span's address some time before, claims it, gives the pages back and ends the claim.
 * Left out: several spans and caches (each span's kind is all that they share); large.pml has two threads that
 * free one block.
 * Asserted: pages are only given back while nobody may write to them; a span is released once, and not while
 * the purger has it; no deadlock.
 *
 * check: states 46
 * mutant TAKE_UNCLAIMED: assertion violated (taken from the cache by a plain store)
 * mutant EVICT_UNCLAIMED: assertion violated (released without waiting for the purger)
 * mutant GIVE_UNCLAIMED: assertion violated (the purger goes by what it has seen)
 */
#define FREE 0 /* enum slab_kind */
#define LARGE 2
#define CACHED 3
#define GIVING 4
#define GIVEN 5

byte kind = LARGE;

/* For the assertions only. */
bool writable = true; /* the program, or whoever acquires the slices next, may write to the pages */

inline claim(won) {
  d_step {
    won = (kind == CACHED || kind == GIVEN);
    kind = (won -> LARGE : kind)
  }
}

active proctype thread() {
  bool won;
endless:
  do
  :: d_step { kind == LARGE -> writable = false; kind = CACHED };
     do
     :: /* span_cache_take: a span that is being given is passed over */
#ifdef TAKE_UNCLAIMED
        kind = LARGE; won = true;
#else
        claim(won);
#endif
        if
        :: won -> writable = true; break
        :: else
        fi
     :: /* evicted or flushed: claim_and_release */
#ifdef EVICT_UNCLAIMED
        won = true;
#else
        won = false;
        do
        :: !won -> claim(won)
        :: won -> break
        od;
#endif
        kind = FREE;
        writable = true; /* whoever acquires the slices */
        kind = LARGE;    /* in time another Large block that this thread frees */
        break
     od
  od
}

active proctype engine() {
  bool won;
endless:
  do
  :: kind == CACHED -> /* the look, before the claim */
#ifdef GIVE_UNCLAIMED
     won = true;
#else
     d_step { won = (kind == CACHED); kind = (won -> GIVING : kind) };
#endif
     if
     :: won ->
        assert(!writable); /* the system call begins */
        assert(!writable); /* and ends */
        kind = GIVEN
     :: else
     fi
  od
}
