/* touched.h - which pages of large blocks a program really uses: operation 8 of the trace.
 *
 * For a sample of the blocks, whole pages are given back to the system before the program gets the block, so that
 * those resident when it frees it, or at exit(), are those that it touched. The caller has its chunk in hand: a signal
 * handler that interrupts it records nothing, and so does not come here.
 */
#ifndef HAKMEM_TRACE_TOUCHED_H
#define HAKMEM_TRACE_TOUCHED_H

#include "os/os.h"

#define TOUCHED_MIN (64 * KIB)

/** Perhaps takes a block into the sample; its first `keep` bytes hold something. */
void touched_look_at(void *block, size_t size, size_t keep) HAK_HIDDEN;

/** Takes it in for certain: it was in the sample when it was smaller, or elsewhere. */
void touched_enter(void *block, size_t size, size_t keep) HAK_HIDDEN;

/** Takes a block out of the sample; its size, or 0 if it was not in. */
size_t touched_remove(const void *block) HAK_HIDDEN;

/** Empties the sample, in the child of a fork: what was touched before would count as the child's. */
void touched_forget(void) HAK_HIDDEN;

/** Pages of the block that are resident. */
uint64_t touched_pages(const void *block, size_t size) HAK_HIDDEN;

extern _Atomic uint32_t touched_count HAK_HIDDEN; /* blocks in the sample */

/** False: the block is not in the sample. */
HAK_INLINE bool touched_may_have(const void *block) {
  return HAK_UNLIKELY(((uintptr_t)block & 4095) == 0) &&
         atomic_load_explicit(&touched_count, memory_order_relaxed) != 0;
}

#endif
