/* refill.h - blocks for an empty bin. */
#ifndef HAK_REFILL_H
#define HAK_REFILL_H

#include "heap/heap.h"

/* A refill gathers this much, so that its cost spreads over several blocks, and carves no more than
 * this ahead: a class that is used little touches one page (docs/decisions/0002). Blocks from this size on come one by one, each in
 * new pages. */
#define REFILL_BYTES ((size_t)4 * KIB)
enum { REFILL_BLOCKS = 64 };

/** A block of the class for the thread's heap whose bin is empty; `any_larger`: or of a larger class. NULL: no
 * memory. `*zeroed`, where it is asked for, becomes true if the block reads as zeros. The caller
 * holds no lock, and calls release_answer after it. */
void *refill(struct thread_cache *cache, unsigned size_class, bool any_larger, bool *zeroed);

/** A block for calloc of a slab in which nothing is free, of memory that nobody touched; NULL: there is none, or `zeroed` is NULL, or the
 * blocks are too small to be worth it. `*zeroed` becomes true with it. Under the lock of the slab's heap. */
void *refill_untouched(struct slab *slab, bool *zeroed);

/** A block of `size` bytes got this class for the sake of its alignment. */
void refill_note_aligned(unsigned size_class, size_t size);

/** Makes a slab whose pages were given back a partial one; false: there is none. Under cache->lock. */
bool refill_recommit(struct arena *arena, unsigned size_class);

#endif
