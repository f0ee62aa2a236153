/* background.h - the helper thread that runs the release engine (release.h), and what happens where there is none. */
#ifndef HAK_BACKGROUND_H
#define HAK_BACKGROUND_H

#include "heap/heap.h"

/* Was the last free of this thread that may call the engine the dynamic loader's? */
extern _Thread_local bool release_for_loader HAK_HIDDEN __attribute__((tls_model("initial-exec")));

/** To be told where a free that may call the engine was called from. glibc's pthread_join frees the TLS of cached
 * stacks, by the loader, while it holds the lock that pthread_create takes: no helper is started then, and from
 * no free at all where the loader is not known. */
HAK_INLINE void release_note_caller(const void *code) { release_for_loader = os_is_loader(code); }

/** Is anything to be given back at all before the program asks for it? */
bool release_is_on(void);
/** Calls the engine: starts the helper, or works for a moment in this thread. Holds no lock. */
void release_wake(void);
/** To be called while memory grows. Where a free must not start the helper it is started here, and waits for the call.
 * Holds no lock. */
void release_get_ready(void);
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
