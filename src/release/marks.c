/* marks.c - see marks.h. */
#include "release/marks.h"

#include "release/background.h"
#include "superslab/dirty.h"

/* A heap with less than this calls nobody. */
#define STEP_LEAST (RELEASE_BYTES / 64)

static size_t step(void) {
  uint64_t active = heap_active();
  size_t share = RELEASE_BYTES / (active > 0 ? active : 1);
  return share < STEP_LEAST ? STEP_LEAST : share;
}

void release_set_mark(struct heap *heap) { heap->release_from = heap->free_bytes + step(); }

bool release_is_due(struct heap *heap) {
  if (HAK_LIKELY(heap->free_bytes < heap->release_from)) {
    if (heap->release_from > heap->free_bytes + RELEASE_BYTES) release_set_mark(heap);
    return false;
  }
  return true;
}

bool release_inbox_is_due(size_t bytes) { return bytes >= step(); }

static _Atomic size_t below_from = RELEASE_BYTES;

/* And in the threads' caches of Large blocks. What was given back there is counted still: the mark is set above it. */
static size_t waiting_below_heaps(void) {
  return superslab_dirty_bytes() + unit_warm_bytes() + large_cached_bytes();
}

void release_mark_below(void) {
  atomic_store_explicit(&below_from, waiting_below_heaps() + RELEASE_BYTES, memory_order_relaxed);
}

void release_check_below(void) {
  size_t from = atomic_load_explicit(&below_from, memory_order_relaxed);
  size_t waiting = waiting_below_heaps();
  struct heap *mine = heap_if_any();
  if (waiting >= from) release_wake();
  else if (mine != NULL && mine->rides) release_ride_on();
  else if (from > waiting + RELEASE_BYTES) release_mark_below();
}
