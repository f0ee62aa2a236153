/* look.h - what a look of the engine is made of: pieces of bounded work, for whoever holds `engine_pass_lock`. The helper does all of
 * them one after the other (release.c), a thread that rides some at each call (ride.c). */
#ifndef HAK_LOOK_H
#define HAK_LOOK_H

#include "release/release.h"
#include "superslab/dirty.h"

struct pass {
  unsigned looks;        /* 0: everything goes, whatever its age */
  bool at_once;          /* slabs of any age; huge pages only where half of a slab goes */
  size_t young;          /* bytes that have to wait */
  bool (*goes_on)(void); /* false: the rest is left; NULL: all is looked at */
  bool split;            /* a huge page was broken up: its other slabs deserve another look */
  bool gone;             /* every page of the batch was given back, and reads as zeros */
  size_t count;          /* ranges gathered */
  size_t given;          /* bytes in all */
  size_t gone_bytes;     /* of those, what the kernel has taken for sure */
};

/* What the thread of a class at rest would do with its inbox, and the next thread with a parked heap's bins. A class rests
 * by itself: its thread may be busy in another. */

/** Once in a look, before look_tidy. False: there is nothing to tidy. */
bool look_begin(struct heap *heap);
/** Puts some blocks of a class at rest into their slabs; false: none are left. */
bool look_tidy(struct heap *heap, unsigned size_class, const struct pass *pass);
/** Once in a look, after look_tidy: counts what is left as young. */
void look_end(struct heap *heap, struct pass *pass);

/** Up to a batch of slabs of the class, from slabs->next_look on; false when the class is done. */
bool look_at_slabs(struct heap *heap, struct class_slabs *slabs, struct pass *pass);
/** Goes to the first slab of the class; false: there is none. */
bool look_start(struct heap *heap, unsigned size_class);
/** The heap's cached Large blocks. */
void look_at_spans(struct heap *heap, struct pass *pass);
/** Free slices of a few SuperSlabs; false: there are no more. */
bool look_at_some_slices(struct dirty_cursor *cursor, struct pass *pass);

#endif
