/* common.h - heaps that are no thread's: slabs for all threads of a program that has many.
 *
 * A thread of which each class above 4 KiB is asked for now and then holds, in time, the most blocks of each class that it ever
 * needed at once, beside slabs of its own that are hardly used: 1.7 MB a thread, for 0.1 MB in use (docs/decisions/0029). So a
 * program with many threads takes new blocks of these classes from common heaps. A thread keeps those that it has freed in its
 * own bin, which is small, whoever took them from the common heap; what runs over goes back there, by the inbox.
 *
 * The bins of a common heap are under its lock as all of it is, like those of a parked heap. Who takes the lock
 * holds no other heap's: so it may wait for it.
 */
#ifndef HAK_COMMON_H
#define HAK_COMMON_H

#include "heap/heap.h"

/* Larger blocks are common. Below, a refill brings several blocks, and a page is shared by several. But with more than FEW_HEAPS heaps
 * those are common, too, that a thread asks for now and then, so that it has no slab of their class: a page or two of each class in
 * each thread are most of what many threads hold. (Where classes are shared, share.h, only those above SHARE_BYTES.) */
#define COMMON_ABOVE ((size_t)4 * KIB)
#define COMMON_OF_MANY_ABOVE ((size_t)256)
#define COMMON_FIRST_CLASS CLASS_FOR(COMMON_OF_MANY_ABOVE + 1)

/** May blocks of the class be common? */
HAK_INLINE bool common_has_class(unsigned size_class) { return size_class >= COMMON_FIRST_CLASS; }

HAK_INLINE bool common_is(const struct heap *heap) {
  return atomic_load_explicit(&heap->state, memory_order_relaxed) == HEAP_COMMON;
}

/** Does the heap's thread take the class from a common heap? The heap's thread only. */
bool common_wanted(const struct heap *heap, unsigned size_class);

/** Counts that it did so once more: a thread that asks too often gets slabs of its own. */
void common_rent(struct heap *heap, unsigned size_class);

/** Its thread has ended: the next one begins anew. */
void common_park(struct heap *heap);

/** The heap that new blocks of the class come from, one of the calling thread's node; NULL: no memory for it. The caller holds no lock. */
struct heap *common_heap(unsigned size_class);

/** Does so much wait in a common heap's inbox that the release engine is wanted? */
bool common_is_due(unsigned size_class);

/** Makes a heap common, and known. Under heap_list_lock. */
void common_start(struct heap *heap, unsigned node);

/* Of a common heap's inbox so much is worth the engine, for all threads. */
#define COMMON_DUE_BYTES ((size_t)1 * MIB)

/** Does so much wait in this common heap's inbox? A hint. */
bool common_waits(const struct heap *heap);

/** In a fork's child: another thread was inside, a new one is to be made. */
void common_lose(struct heap *heap);

#endif
