/* marks.h - when the purger (release.h) is called: what slow halves of malloc and free ask after their work. */
#ifndef HAK_MARKS_H
#define HAK_MARKS_H

#include "heap/purger.h"

/** After memory went below the heaps (slices of SuperSlabs, the warm pool): calls the purger when enough has
 * gathered there. Holds no lock. */
void release_check_below(void);
/** Takes what is there now for the least, above which release_check_below counts. */
void release_mark_below(void);

void release_answer_now(struct thread_cache *cache);
/** Does what cache->deferred says, after a call into the heap room; DEFERRED_READY is left for release_be_ready. The calling thread's cache;
 * holds no lock. */
HAK_INLINE void release_answer(struct thread_cache *cache) {
  if (HAK_UNLIKELY((cache->deferred & ~DEFERRED_READY) != 0)) release_answer_now(cache);
}

#endif
