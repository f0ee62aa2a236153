/* look.h - a look of the engine, and the pieces of bounded work that it is made of, for whoever holds `engine_pass_lock`. The helper and a
 * purge do all of them one after the other (release.c), the program's own calls some at each beat (beat.c). */
#ifndef HAK_LOOK_H
#define HAK_LOOK_H

#include "release/release.h"
#include "superslab/dirty.h"

/* What a call of the program's own does of it: 1 MiB is 60 us where the pages lie side by side, 300 us where they do not. Looking alone is two
 * cache misses a slab. */
#define GIVEN_AT_ONCE (1 * MIB)
enum { PIECES_AT_ONCE = 8 };

/* Where a look is: before its first piece; at a heap's inboxes, then at its slabs; below the heaps; behind its last piece. */
enum pass_stage { PASS_BEGINS, PASS_INBOXES, PASS_SLABS, PASS_SLICES, PASS_DONE };

struct pass {
  unsigned looks;        /* 0: everything goes, whatever its age */
  bool at_once;          /* slabs of any age; huge pages only where half of a slab goes */
  size_t young;          /* bytes that have to wait */
  bool (*goes_on)(void); /* false: the rest is left; NULL: all is looked at */
  bool fences;           /* what threads have not sent goes, too, by a system call (heap/slots.h) */
  bool split;            /* a huge page was broken up: its other slabs deserve another look */

  /* Where it goes on. */
  enum pass_stage stage;
  struct heap *heap;
  unsigned size_class; /* of the heap's */
  bool in_class;       /* some of its slabs were looked at */
  size_t left;         /* that many more at most */
  struct dirty_cursor slices;

  /* Of the ranges that go together. */
  bool gone;         /* every page of the batch was given back, and reads as zeros */
  size_t count;      /* ranges gathered */
  size_t given;      /* bytes in all */
  size_t gone_bytes; /* of those, what the kernel has taken for sure */
};

/** A piece of the look; false: that was the last one. */
bool pass_step(struct pass *pass);

/** For a look at one class alone (trade.h): goes to its first slab; false: there is none. */
bool look_start(struct heap *heap, unsigned size_class);
/** Up to a batch of slabs of the class, from slabs->next_look on; false when the class is done. */
bool look_at_slabs(struct heap *heap, struct class_slabs *slabs, struct pass *pass);

#endif
