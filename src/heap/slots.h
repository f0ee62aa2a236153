/* slots.h - who may touch the slots in which a thread gathers blocks for others (remote.h).
 *
 * A thread uses the slots of its heap without a lock, and without an instruction that orders its processor's stores. The purger
 * empties those of a thread that sleeps, in three steps:
 *
 *   the thread    in_slots = 1; if slots_claimed: in_slots = 0, and it takes the claim back under the heap's lock; else it uses the
 *                 slots; in_slots = 0
 *   the purger    slots_claimed = 1 in all heaps; os_fence_threads(); then for each cache, under its lock: if the claim stands and
 *                 in_slots is 0, it sends what is in the slots; slots_claimed = 0
 *
 * What the thread stored before the fence is seen by the purger after it, and a thread that comes to the slots after the fence sees
 * the claim. So one of the two sees the other, as with a seq_cst fence between the thread's store and its load. Who sees the claim
 * waits for the lock. Where the kernel has no such fence the slots stay as they are. tests/models/slots.pml is a model of it.
 *
 * The purger writes neither a slot's owner nor its limit and class, so the thread reads these as it likes.
 */
#ifndef HAK_SLOTS_H
#define HAK_SLOTS_H

#include "heap/heap.h"

/** Was the heap's thread interrupted at its slots, by a signal's handler that is here now? They are in no order then. */
HAK_INLINE bool slots_are_in_use(const struct thread_cache *cache) {
  return atomic_load_explicit(&cache->in_slots, memory_order_relaxed); /* its own store */
}

/** Before the heap's thread touches what is in its slots. False: it is at them already (slots_are_in_use), or they are claimed:
 * slots_take_back, and once more. */
HAK_INLINE bool slots_enter(struct thread_cache *cache) {
  if (HAK_UNLIKELY(slots_are_in_use(cache))) return false;
  /* relaxed: os_fence_threads orders it before the load for everybody else, if the compiler leaves it there. */
  atomic_store_explicit(&cache->in_slots, true, memory_order_relaxed);
  __asm__ volatile("" : : : "memory");
  /* acquire: where the purger has let go of the slots, what it did to them is seen. */
  if (HAK_LIKELY(!atomic_load_explicit(&cache->slots_claimed, memory_order_acquire))) return true;
  atomic_store_explicit(&cache->in_slots, false, memory_order_relaxed); /* nothing was changed */
  return false;
}

HAK_INLINE void slots_leave(struct thread_cache *cache) {
  /* release: a purger that sees this sees the slots as they are now. */
  atomic_store_explicit(&cache->in_slots, false, memory_order_release);
}

/** Ends a claim, after the purger is done where it has begun. The heap's thread, which does not hold its lock. */
void slots_take_back(struct thread_cache *cache);

/** Claims the slots of a heap for slots_send_claimed; false: no thread has it. One purger at a time. */
bool slots_claim(struct thread_cache *cache);

/** After os_fence_threads: sends what the slots of a claimed heap hold, with `idle_scans` above 0 only what was there at the last call. Leaves a
 * heap whose thread is at them, or has been. Returns the bytes that stay. Takes the heap's lock. */
size_t slots_send_claimed(struct thread_cache *cache, unsigned idle_scans);

#endif
