/* marks.c - see marks.h. */
#include "release/marks.h"

#include "release/background.h"
#include "release/growth.h"
#include "superslab/dirty.h"
#include "superslab/unit_os.h"

static _Atomic size_t below_least; /* since the purger last scanned */

/* And in the threads' caches of Large blocks. What was given back there is counted still: the mark is set above it. */
static size_t waiting_below_heaps(void) {
  return superslab_dirty_bytes() + unit_warm_bytes() + span_cache_dirty_bytes();
}

void release_mark_below(void) {
  atomic_store_explicit(&below_least, waiting_below_heaps(), memory_order_relaxed);
}

static bool enough_waits_below(size_t least, size_t waiting) {
  return waiting >= least + RELEASE_LEAST && waiting >= least + purger_worth();
}

void release_check_below(void) {
  size_t least = atomic_load_explicit(&below_least, memory_order_relaxed);
  size_t waiting = waiting_below_heaps();
  if (enough_waits_below(least, waiting)) release_wake();
  else if (waiting < least) release_mark_below();
}

void release_answer_now(struct thread_cache *cache) {
  unsigned deferred = cache->deferred;
  cache->deferred &= DEFERRED_READY; /* that is malloc's to answer, by release_be_ready */
  if ((deferred & DEFERRED_PURGE) != 0) release_wake();
  else if ((deferred & DEFERRED_CHECK) != 0) release_check_below();
  if ((deferred & DEFERRED_GROWTH_PURGE) != 0) release_growth_purge(cache);
  if ((deferred & DEFERRED_COLLAPSE) != 0) release_growth_collapse();
}
