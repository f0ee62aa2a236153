/* quarantine.h - blocks that the program has freed and that wait before they can be handed out again (HAKMEM_GUARD=full).
 *
 * A thread's quarantine holds up to QUARANTINE_BLOCKS blocks of HAKMEM_GUARD_QUARANTINE_KB in all. When it is full, some others go, up to
 * a sixteenth of them, chosen by chance: how long a block waits cannot be told.
 *
 * Thread safety: a quarantine is its heap's thread's, as bins are.
 */
#ifndef HAK_QUARANTINE_H
#define HAK_QUARANTINE_H

#include "heap/heap.h"

#if HAK_HARDENED

/** Takes a free, cleared block of a slab of the class, and lets others go: into the heap's bins, or to their owners. The samples' cache,
 * which has no thread, has one under its lock: its blocks go back into their slabs. */
void quarantine_put(struct thread_cache *cache, void *block, unsigned size_class);
/** In the child of a fork, of a thread that is not there, which may have been between any two stores: what waits goes into slabs. Under the
 * heap's lock. Returns the bytes that are lost. */
size_t quarantine_settle(struct thread_cache *cache);
/** Lets all go; release_answer after it. */
void quarantine_flush(struct thread_cache *cache);

#else

HAK_INLINE void quarantine_put(struct thread_cache *cache, void *block, unsigned size_class) {
  (void)cache;
  (void)block;
  (void)size_class;
}
HAK_INLINE void quarantine_flush(struct thread_cache *cache) { (void)cache; }
HAK_INLINE size_t quarantine_settle(struct thread_cache *cache) {
  (void)cache;
  return 0;
}

#endif

#endif
