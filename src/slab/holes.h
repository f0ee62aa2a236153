/* holes.h - pages of a slab given back to the system while other pages of it are in use.
 *
 * A page whose blocks are all free can go. It is marked in the slab's bitmap of holes, and every block that
 * touches it leaves the free list. A free block touches a hole or stands in the list, never both, so
 * that the bitmap alone says which blocks are where. A refill that finds the list empty opens a hole again:
 * its pages come back as zeros by the first touch.
 *
 * Finding such pages means following the free list, thousands of cache misses in the worst case, and
 * giving them back is a system call. Neither is done under a lock: purge_begin takes the list off the
 * slab, whose owner goes on with what it has, and purge_end brings back what is left of it. Meanwhile the
 * slab is marked: it is in no list of partial slabs, nothing is carved from it, and it is not released.
 *
 * The same idea, measured before: a process of 520 MB with 95% freed at random keeps 63 MB instead of
 * the 379 that whole slabs would leave (docs/decisions/0012).
 */
#ifndef HAK_HOLES_H
#define HAK_HOLES_H

#include "slab/slab.h"

/* Age of a slab that a purge has looked through: nothing to find until a block goes in or out. */
#define SLAB_CLEAN 255
/* Looked through as well, but a whole huge page was not worth breaking up for it. */
#define SLAB_HUGE 254

enum { SLAB_SLICES_MOST = 4 };

struct purge {
  struct slab *slab;
  void *list;                       /* free blocks, taken off the slab */
  unsigned count;                   /* blocks in the list */
  unsigned carved;                  /* where carving will go on: behind the last block in use */
  bool refused;                     /* what could go was too little of a whole huge page */
  unsigned in_holes;                /* blocks that touch a hole, old ones included */
  uint32_t tail, tail_end;          /* bytes [tail, tail_end) behind the blocks go too */
  uint16_t holes[SLAB_SLICES_MOST]; /* all holes */
  uint16_t fresh[SLAB_SLICES_MOST]; /* those that are new */
};

/** Takes the slab's free blocks. The caller holds the owner's lock and has taken the slab out of the list of
 * partial slabs; the slab is not empty. */
void purge_begin(struct purge *purge, struct slab *slab);

/** Finds what can go. One thread at a time, without the owner's lock. Returns the bytes. `all`: also a few pages of a huge page. */
size_t purge_find(struct purge *purge, bool all);

/** Calls give(argument, address, bytes) for each run of pages that can go. No lock needed. */
void purge_each(const struct purge *purge, void (*give)(void *, char *, size_t), void *argument);

/** Puts the rest back; the owner's lock is held. `gone`: the pages were given back and read as zeros. */
void purge_end(struct purge *purge, bool gone);

/** Moves the blocks of a few pages of holes into the slab's free list; without holes, lets blocks be made again behind the
 * last one. The caller holds the owner's lock, and slab_is_decommitted(slab). */
void hole_open(struct slab *slab);

/** Does the block of this number, a free one then, touch a hole? */
bool hole_has(const struct slab *slab, unsigned number);

#endif
