/* bins.h - how many free blocks a bin keeps. */
#ifndef HAK_BINS_H
#define HAK_BINS_H

#include "heap/heap.h"

/** Called when a bin's room has fallen below 0: lets it grow, or returns its colder half. The heap's thread only, which holds no
 * lock; the caller of free() has to be known (release_note_caller). */
void bin_overflow(struct heap *heap, struct bin *bin);

/** Halves what a bin may hold. Its room may be below 0 then: bin_trim. */
void bin_halve(struct heap *heap, struct bin *bin);

/** Puts all but the `keep` blocks that were freed last back into their slabs. Takes the heap's lock. */
void bin_trim(struct heap *heap, struct bin *bin, uint32_t keep);

#endif
