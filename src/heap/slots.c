/* slots.c - see slots.h. */
#include "heap/slots.h"

#include "heap/remote.h"

void slots_take_back(struct thread_cache *cache) {
  lock_acquire(&arena_beside(cache)->lock);
  /* relaxed: this thread's next look finds it, and the purger looks under the lock */
  atomic_store_explicit(&cache->slots_claimed, false, memory_order_relaxed);
  lock_release(&arena_beside(cache)->lock);
}

bool slots_claim(struct thread_cache *cache) {
  if (arena_state(arena_beside(cache)) != ARENA_ACTIVE) return false;
  /* relaxed: os_fence_threads comes after it, and orders it before what the thread loads from then on */
  atomic_store_explicit(&cache->slots_claimed, true, memory_order_relaxed);
  return true;
}

/* Under the lock. Whoever takes a claim back does so under the lock, so one that stands is older than the fence, and stays for as long as
 * the lock is held. acquire: with slots_leave, after which nothing is done to the slots, since the thread sees the claim. */
static bool may_send(struct thread_cache *cache) {
  return arena_state(arena_beside(cache)) == ARENA_ACTIVE &&
         atomic_load_explicit(&cache->slots_claimed, memory_order_relaxed) &&
         !atomic_load_explicit(&cache->in_slots, memory_order_acquire);
}

size_t slots_send_claimed(struct thread_cache *cache, unsigned idle_scans) {
  /* A hint: what was not claimed is not looked at under its lock. */
  if (!atomic_load_explicit(&cache->slots_claimed, memory_order_relaxed)) return 0;
  lock_acquire(&arena_beside(cache)->lock);
  size_t unexpired = may_send(cache) ? remote_send_older(cache, idle_scans) : 0;
  /* release: what was done to the slots is seen by the thread that sees this */
  atomic_store_explicit(&cache->slots_claimed, false, memory_order_release);
  lock_release(&arena_beside(cache)->lock);
  return unexpired;
}
