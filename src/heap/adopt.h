/* adopt.h - slabs that sleep in other heaps: of ended threads, or of threads that look away while their inbox grows. */
#ifndef HAK_ADOPT_H
#define HAK_ADOPT_H

#include "heap/heap.h"

/** Takes over memory of the class from one heap that sleeps: slabs, or a large part of its drained list; false: none was found. The
 * caller holds arena->lock. Other heaps' locks are only tried, so two heaps that adopt from each other cannot deadlock.
 * `far`: also from heaps of other nodes. */
bool adopt_slabs(struct arena *arena, unsigned size_class, bool far);

/* Blocks of this size and more are new pages each. */
#define ADOPT_BLOCKS_FROM ((size_t)4 * KIB)

/** Before a home that threads share touches new pages for such a class: free blocks of another home of the node, or 0. They stay that
 * one's. The caller holds arena->lock; others are only tried. superslab_settle is to be called after it. */
unsigned adopt_blocks(struct arena *arena, unsigned size_class, unsigned wanted, void **list);

#endif
