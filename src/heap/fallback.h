/* fallback.h - a free block of a larger class, before a refill touches a new page (docs/decisions/0013). */
#ifndef HAK_FALLBACK_H
#define HAK_FALLBACK_H

#include "heap/heap.h"

/** A free block of one of the next larger classes out of the bins of the calling thread's cache, or NULL: none is there, or the
 * class has had its fallbacks. It returns to its own class when it is freed. */
void *fallback_take(struct thread_cache *cache, unsigned size_class);

/** A new page is about to be touched for the class: no fallbacks for a while, or, for a class with fallbacks of its own, all of them
 * again. */
void fallback_end(struct thread_cache *cache, unsigned size_class);

#endif
