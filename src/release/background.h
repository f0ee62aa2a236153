/* background.h - the helper thread that runs the release engine (release.h), and what happens where there is none. */
#ifndef HAK_BACKGROUND_H
#define HAK_BACKGROUND_H

#include "heap/engine.h"
#include "heap/heap.h"

/** Is anything to be given back at all before the program asks for it? */
bool release_is_on(void);
/** Calls the engine: the helper, or works for a moment in this thread. Starts no thread. Holds no lock. */
void release_wake(void);
/** Starts the helper, unless there is one, or none may be: to be called by slow paths of malloc while memory grows, and when a thread is
 * new (`grew`), or when a call was not heard. Never within free(): glibc's pthread_join frees the TLS of cached stacks while it holds a lock that pthread_create takes. The
 * caller holds no lock. */
void release_get_ready(bool grew);
/** The same, for a slow path of malloc by the thread that has the heap, if there is a reason to. */
HAK_INLINE void release_be_ready(struct heap *heap) {
  if (HAK_LIKELY((heap->wants & WANTS_READY) == 0 && !heap->rides && !engine_is_unheard())) return;
  bool grew = (heap->wants & WANTS_READY) != 0;
  heap->wants &= (uint8_t)~WANTS_READY; /* first: starting a thread allocates */
  release_get_ready(grew);
}
/** Does this slow path of a heap that rides pass without a look at the clock? */
HAK_INLINE bool release_skips_ride(struct heap *heap) {
  if (!heap->rides || heap->ride_skips == 0) return false;
  heap->ride_skips--;
  return true;
}

/** The rest of release_ride_on. */
void release_ride_now(struct heap *heap);
/** The next part, if the calling thread's heap rides; none if a helper runs by now. Holds no lock. */
HAK_INLINE void release_ride_on(struct heap *heap) {
  if (HAK_LIKELY(!heap->rides)) return;
  if (heap->veiled_calls > 0) heap->veiled_calls--;
  if (!release_skips_ride(heap)) release_ride_now(heap);
}

/* A heap that rides and is veiled no more calls each so many bytes; where blocks are larger, once in RIDE_CALLS of them, as long as
 * they are no larger than RIDE_BLOCK_MOST. */
enum { RIDE_CALLS = 64, RIDE_BLOCK_LEAST = KIB, RIDE_BLOCK_MOST = 16 * KIB };
#define RIDE_CALL_BYTES ((int64_t)RIDE_CALLS * RIDE_BLOCK_LEAST)

/** The next part where heap_call_soon has brought the thread, for a block of `size` bytes. It will come again. */
HAK_INLINE void release_come_by(struct heap *heap, size_t size) {
  if (HAK_LIKELY(!heap->rides)) return;
  size_t block = size < RIDE_BLOCK_MOST ? size : RIDE_BLOCK_MOST;
  heap_call_soon(block > RIDE_BLOCK_LEAST ? RIDE_CALLS * (int64_t)block : RIDE_CALL_BYTES);
  release_ride_now(heap);
}

#endif
