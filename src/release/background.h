/* background.h - the helper thread that runs the purger (release.h), and what happens where there is none. */
#ifndef HAK_BACKGROUND_H
#define HAK_BACKGROUND_H

#include "heap/heap.h"
#include "heap/purger.h"

/** Is anything to be given back at all before the program asks for it? */
bool release_is_on(void);
/** Calls the purger: the helper, or asks for beats (beat.h). Starts no thread. Holds no lock. */
void release_wake(void);
/** Wakes the helper, also from its rest between two scans. False: there is none. Holds no lock. */
bool release_ring(void);
/** The helper is wanted at once, for more than a scan: it wakes, or the next slow path of malloc starts it. Holds no lock. */
void release_call(void);
/** Starts the helper, unless there is one, or none may be: to be called by slow paths of malloc while memory grows, and when a thread is
 * new (`grew`), or when a call was not heard. Never within free(): glibc's pthread_join frees the TLS of cached stacks while it holds a lock that pthread_create takes. The
 * caller holds no lock. */
void release_get_ready(bool grew);
/** The same, for a slow path of malloc by the thread that has the cache, if there is a reason to. */
HAK_INLINE void release_be_ready(struct thread_cache *cache) {
  if (HAK_LIKELY((cache->deferred & DEFERRED_READY) == 0 && !purger_is_unheard())) return;
  bool grew = (cache->deferred & DEFERRED_READY) != 0;
  cache->deferred &= (uint8_t)~DEFERRED_READY; /* first: starting a thread allocates */
  release_get_ready(grew);
}
#endif
