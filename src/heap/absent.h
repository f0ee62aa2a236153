/* absent.h - heaps of threads that the child of a fork does not have.
 *
 * Bins and slots of outgoing blocks are used without a lock. The child takes those of a thread over that did not touch them while the
 * process forked: their blocks would be lost to it otherwise, and to its children again, generation after generation
 * (docs/decisions/0018).
 *
 *   before the fork  under the heap's lock: a sum of what the thread uses without a lock is noted, and its inbox is moved to the drained list.
 *   in the child     the sum is the same: the heap is parked as it is, in doubt. Else the bins and slots are emptied, and what they
 *                    held is counted as lost.
 *   at its first use under the heap's lock: each list is followed once, and kept if it can be nothing but what it should be.
 */
#ifndef HAK_ABSENT_H
#define HAK_ABSENT_H

#include "heap/heap.h"

/** Before a fork: of a heap whose lock the calling thread holds for it. */
void absent_note(struct arena *arena);
/** In the child, of a heap that is not the calling thread's: true if it was another thread's. It is parked now; what that thread used without a
 * lock is to be proved, or gone. */
bool absent_take_over(struct arena *arena);
/** In the child: the heap is not used any more; its free blocks are lost. */
void absent_lose(struct arena *arena);

void absent_prove_now(struct arena *arena);
/** Before anything in the bins, slots or cached spans of a heap without a thread is used. Under its lock; superslab_settle is to be called
 * after it. */
HAK_INLINE void absent_prove(struct arena *arena) {
  if (HAK_UNLIKELY(atomic_load_explicit(&arena->in_doubt, memory_order_relaxed)))
    absent_prove_now(arena);
}

/** Bytes of free blocks that this process, or one that it descends from, lost at forks. */
uint64_t absent_lost_bytes(void);
/* They, for the directory. */
extern _Atomic uint64_t absent_lost HAK_HIDDEN;

#endif
