/* beat.h - the purger where there is no helper thread: pieces of a scan in the program's own calls.
 *
 * While memory waits a thread's count of bytes to the next sample takes it out of malloc's fast path, at a beat. It reads the clock there. If half
 * the decay time has passed since the last scan ended, it does some pieces of the scan that all threads share.
 * The first beat comes with the next call. Each that finds the clock where the last one found it doubles the bytes to the next (BEAT_CALLS says how
 * far). So a program with few calls looks in each of them, and a busy one seldom.
 * Free's slow halves count what they pass on (a full bin's colder half, a batch, a Large block) towards the same beat. A program that only frees,
 * or frees a little now and then, gives memory back as well.
 *
 * The fast variant has no count of bytes, so it counts calls: while memory waits its mallocs take the slow path (heap_call_soon), some
 * hundreds in a tick of the clock.
 */
#ifndef HAK_BEAT_H
#define HAK_BEAT_H

#include "heap/purger.h"

/** Memory waits, and there is no helper: asks for beats. Holds no lock. */
void release_request_beats(void);
/** A beat of the calling thread, which has a heap and holds no lock; within a malloc of `size` bytes, for it may start the helper. */
void release_beat(size_t size);

HAK_INLINE bool release_has_beats(void) {
  return HAK_UNLIKELY(atomic_load_explicit(&purger_beats, memory_order_relaxed) != BEATS_NONE);
}

/** In a slow half of free, which has passed `bytes` on in blocks of `size`: starts no thread. Holds no lock. */
void release_beat_of_free(size_t size, size_t bytes);
HAK_INLINE void release_count_free(size_t size, size_t bytes) {
  if (release_has_beats()) release_beat_of_free(size, bytes);
}

/** In the slow half of a malloc of a small block: a call of the fast variant's. */
HAK_INLINE void release_count_call(void) {
  if (HAK_FAST && HAK_UNLIKELY(--malloc_thread.sample_left < 0)) release_beat(0);
}

#endif
