/* slots.c - see slots.h. */
#include "heap/slots.h"

#include "heap/remote.h"

void slots_take_back(struct heap *heap) {
  lock_acquire(&heap->lock);
  /* relaxed: this thread's next scan finds it, and the purger looks under the lock */
  atomic_store_explicit(&heap->slots_claimed, false, memory_order_relaxed);
  lock_release(&heap->lock);
}

bool slots_claim(struct heap *heap) {
  if (atomic_load_explicit(&heap->state, memory_order_relaxed) != HEAP_ACTIVE) return false;
  /* relaxed: os_fence_threads comes after it, and orders it before what the thread loads from then on */
  atomic_store_explicit(&heap->slots_claimed, true, memory_order_relaxed);
  return true;
}

/* Under heap->lock. Whoever takes a claim back does so under the lock, so one that stands is older than the fence, and stays for as long as
 * the lock is held. acquire: with slots_leave, after which nothing is done to the slots, since the thread sees the claim. */
static bool may_send(const struct heap *heap) {
  return atomic_load_explicit(&heap->state, memory_order_relaxed) == HEAP_ACTIVE &&
         atomic_load_explicit(&heap->slots_claimed, memory_order_relaxed) &&
         !atomic_load_explicit(&heap->in_slots, memory_order_acquire);
}

size_t slots_send_claimed(struct heap *heap, unsigned idle_scans) {
  /* A hint: what was not claimed is not looked at under its lock. */
  if (!atomic_load_explicit(&heap->slots_claimed, memory_order_relaxed)) return 0;
  lock_acquire(&heap->lock);
  size_t unexpired = may_send(heap) ? remote_send_older(heap, idle_scans) : 0;
  /* release: what was done to the slots is seen by the thread that sees this */
  atomic_store_explicit(&heap->slots_claimed, false, memory_order_release);
  lock_release(&heap->lock);
  return unexpired;
}
