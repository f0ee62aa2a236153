/* slab.h - blocks in and out of one slab. All functions need the lock of the heap that owns it. */
#ifndef HAK_SLAB_H
#define HAK_SLAB_H

#include "observe/counters.h"
#include "slab/link.h"
#include "slab/size_class.h"

_Static_assert(CLASS_COUNT == COUNTED_LARGE, "each class has its counters");

HAK_INLINE uint32_t slab_block_size(const struct slab *slab) {
  /* relaxed: written before the first block was handed out */
  return atomic_load_explicit(&slab->block_size, memory_order_relaxed);
}

/** The span's first descriptor, from any of them. */
HAK_INLINE struct slab *slab_head(struct slab *slab) { return slab - slab->offset; }

/** A slab of the class whose blocks go to the bins of `inbox`. `pages` as in
 * span_acquire. NULL: no memory. */
struct slab *slab_new(unsigned size_class, struct inbox *inbox, enum span_pages pages);

/** Gives an empty slab back. It must be in no list. Under the owner's lock: superslab_settle is to be called after it. */
void slab_release(struct slab *slab);

/** The same with a slab that is not empty: its blocks are gone. */
void slab_drop(struct slab *slab);

/** Names another owner's inbox for the whole span. */
void slab_set_inbox(struct slab *slab, struct inbox *inbox);

/** Makes up to `wanted` blocks from memory that was none yet and puts them in front of `*list`. New
 * pages are asked for in pieces of up to `populate` bytes. Returns how many. */
unsigned slab_carve(struct slab *slab, unsigned wanted, size_t populate, void **list);

/** The next block as it is, without a link in it, if its bytes were never touched and so read as zeros; else NULL. */
void *slab_carve_untouched(struct slab *slab);

/** Takes the list of free blocks, the first `most` of it if it is longer; returns how many. */
unsigned slab_take_list(struct slab *slab, unsigned most, void **list);

/** Takes one free block, or makes one; NULL: there is no room. */
void *slab_take_one(struct slab *slab);

/** Puts `count` blocks of it back, linked from `first` to `last`. */
void slab_put(struct slab *slab, void *first, void *last, unsigned count);

HAK_INLINE unsigned slab_free_count(const struct slab *slab) {
  return atomic_load_explicit(&slab->free_count, memory_order_relaxed);
}

/* Free blocks that are in no list, because pages under them were given back (holes.h). */
HAK_INLINE unsigned slab_hole_count(const struct slab *slab) {
  return atomic_load_explicit(&slab->hole_count, memory_order_relaxed);
}

HAK_INLINE unsigned slab_carved(const struct slab *slab) {
  return atomic_load_explicit(&slab->carved, memory_order_relaxed);
}

/** Bytes of blocks whose pages were given back: those in holes, and those that may be made behind the last one. */
HAK_INLINE size_t slab_decommitted_bytes(const struct slab *slab) {
  unsigned behind = slab->tail_decommitted ? slab->capacity - slab_carved(slab) : 0;
  return (size_t)(slab_hole_count(slab) + behind) * slab_block_size(slab);
}

/** All blocks that were ever made are back. */
HAK_INLINE bool slab_is_empty(const struct slab *slab) {
  return !slab->purging && slab_free_count(slab) + slab_hole_count(slab) == slab_carved(slab);
}

/** Blocks can be had from it, but none without pages that were given back. */
HAK_INLINE bool slab_is_decommitted(const struct slab *slab) {
  return slab->free_list == NULL && (slab_hole_count(slab) > 0 || slab->tail_decommitted);
}

/** A block can be had from it. */
HAK_INLINE bool slab_has_room(const struct slab *slab) {
  return slab->free_list != NULL || slab_hole_count(slab) > 0 || slab_carved(slab) < slab->capacity;
}

#endif
