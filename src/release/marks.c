/* marks.c - see marks.h. */
#include "release/marks.h"

#include "release/background.h"
#include "release/trade.h"
#include "superslab/dirty.h"
#include "superslab/unit_os.h"

static _Atomic size_t below_from = RELEASE_MOST;

/* And in the threads' caches of Large blocks. What was given back there is counted still: the mark is set above it. */
static size_t waiting_below_heaps(void) {
  return superslab_dirty_bytes() + unit_warm_bytes() + large_cached_bytes();
}

void release_mark_below(void) {
  atomic_store_explicit(&below_from, waiting_below_heaps() + engine_worth(), memory_order_relaxed);
}

void release_check_below(void) {
  size_t from = atomic_load_explicit(&below_from, memory_order_relaxed);
  size_t waiting = waiting_below_heaps();
  struct heap *mine = heap_if_any();
  if (waiting >= from) release_wake();
  else if (mine != NULL && mine->rides) release_ride_on(mine);
  else if (from > waiting + engine_worth()) release_mark_below();
}

void release_answer_now(struct heap *heap) {
  unsigned wants = heap->wants;
  heap->wants = 0; /* first: a thread that is started allocates */
  if ((wants & WANTS_ENGINE) != 0) release_wake();
  else if ((wants & WANTS_LOOK) != 0) release_check_below();
  if ((wants & WANTS_READY) != 0) release_get_ready();
  if ((wants & WANTS_TRADE) != 0) release_trade(heap);
}
