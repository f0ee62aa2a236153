/* samples.h - the heap that no thread has: slabs for the sampler's blocks (sample/sample.h). The purger treats it
 * like the others. */
#ifndef HAK_HEAP_SAMPLES_H
#define HAK_HEAP_SAMPLES_H

#include "heap/heap.h"

extern struct arena heap_samples HAK_HIDDEN;
/* In a fork's child: another thread was inside when memory was copied, so it is in no list any more. Written
 * while the child has one thread. */
extern bool heap_samples_lost HAK_HIDDEN;

/** Enters it in the list of heaps, once. False: it is lost. */
bool heap_samples_start(void);

/** One block of the class; NULL: no memory. `zeroed`: see refill. The caller holds heap_samples.lock, which is let go of while a new slab is
 * made. */
void *heap_samples_take(unsigned size_class, bool *zeroed);
/** Puts it back into its slab; under the lock, and superslab_settle is to be called after it. With HAKMEM_GUARD=full it waits before. */
void heap_samples_put(struct slab *slab, void *block);
/** The same at once, of a block that is free and cleared. */
void heap_samples_return(struct slab *slab, void *block);
/** What waits goes back into slabs. Takes the lock. */
void heap_samples_flush(void);

#endif
