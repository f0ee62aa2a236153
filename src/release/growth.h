/* growth.h - a heap that grows gives back pages that are free.
 *
 * The purger gives back what rests. A program that frees most blocks of one size and goes on with another needs new memory before
 * anything has rested. So a heap that becomes larger than it ever was, while RELEASE_MOST and a RELEASE_SHARE-th of it are free, gives back up to
 * 1 MiB, in the call that made it grow. Who does not grow beyond what was there never pays.
 */
#ifndef HAK_GROWTH_H
#define HAK_GROWTH_H

#include "heap/heap.h"

/** Gives back up to 1 MiB of the free pages in slabs of the calling thread's heap. Holds no lock. */
void release_growth_purge(struct thread_cache *cache);

/** Makes a huge page of an older SuperSlab, if one is owed for a new one (superslab/collapse.h): in a process with one thread. In others it wakes the helper
 * for that, or leaves it. Holds no lock. */
void release_growth_collapse(void);
/** The helper: makes all that are owed, until `goes_on` says no. From the first on it has descriptors of its own. */
void release_growth_serve(bool (*goes_on)(void));

#endif
