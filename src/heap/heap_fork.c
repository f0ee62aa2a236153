/* heap_fork.c - what fork.c has to do with the heaps of threads. */
#include "heap/absent.h"
#include "heap/bins.h"
#include "heap/homes.h"
#include "heap/named.h"
#include "heap/parked.h"
#include "heap/reclaim.h"
#include "heap/remote.h"
#include "heap/samples.h"

void heap_each_lock(lock_visit *visit, void *argument) {
  visit(&heap_list_lock, argument);
  for (struct heap *heap = heap_first(); heap != NULL; heap = heap->next)
    visit(&heap->lock, argument);
  reclaim_each_lock(visit, argument);
}

/* To lock 10,000 heaps is to have the kernel copy 10,000 pages after the fork. */
void heap_each_lock_in_use(lock_visit *visit, void *argument) {
  visit(&heap_list_lock, argument);
  for (struct heap *heap = heap_first(); heap != NULL; heap = heap->next)
    if (!heap_is_bare(heap)) visit(&heap->lock, argument);
  reclaim_each_lock(visit, argument);
}

void heap_fork_prepare(void) {
  struct heap *mine = heap_if_any();
  /* Those who wait for another's heap can wait: they are at no allocation, or memory has run out. But one of them may have taken
   * the lock by now, and what it guards is its own then. Where guests are, they may hold what libc waits for (lock.h); nobody is a guest of a guest. */
  bool is_others = mine != NULL && !heap_is_guest(mine) && homes_is_shared(mine);
  bool kept = mine != NULL && !is_others && lock_keep_for_fork(&mine->lock);
  if (kept) remote_settle(mine);
  for (struct heap *heap = heap_first(); heap != NULL; heap = heap->next) {
    if (heap == mine && kept) continue;
    if (parked_is_moved_here(heap) && !homes_is_shared(heap)) (void)lock_keep_for_fork(&heap->lock);
    else absent_note(heap);
  }
}

/* What was in such a heap, if anything, was not locked. */
static bool is_whole_in_child(struct heap *heap) {
  bool was_free = !lock_is_taken(&heap->lock);
  if (lock_is_whole_in_child(&heap->lock)) return true;
  if (!was_free || !heap_is_bare(heap)) return false;
  remote_forget_drained(heap);
  return true;
}

static void lose_heap(struct heap *heap) {
  if (heap == &heap_samples) heap_samples_lost = true;
  else if (named_is(heap)) named_lose(heap);
  else atomic_store_explicit(&heap->state, HEAP_LOST, memory_order_relaxed);
  parked_count_bins(heap, 0);
  absent_lose(heap);
}

/* Is it this thread's, or about to be? */
static bool is_mine(const struct heap *heap) {
  return heap == heap_if_any() || parked_is_moved_here(heap);
}

/* A heap that the child keeps, of a thread or of none. True: it is among the active ones. */
static bool settle_heap(struct heap *heap) {
  if (heap == &heap_samples) return false;
  if (named_is(heap)) {
    named_end_walk_of_others(heap);
    return false;
  }
  remote_forget_inbox(heap);
  if (is_mine(heap)) {
    parked_count_bins(heap, 0);
    reclaim_enter_in_child(heap, false);
    return heap == heap_if_any() ||
           atomic_load_explicit(&heap->transition_counts, memory_order_relaxed);
  }
  /* The bins of a parked heap are under its lock. */
  if (absent_take_over(heap)) parked_count_bins(heap, bins_bytes(heap));
  reclaim_enter_in_child(heap, true);
  return false;
}

/* Nothing is written to a heap that stays as it is, for each page that is costs a copy. */
void heap_fork_child(void) {
  struct heap *mine = heap_if_any(), *first = NULL, *last = NULL, *next;
  uint64_t active_now = 0;
  bool mine_is_whole = false, parked_are_whole = lock_is_whole_in_child(&heap_list_lock);
  reclaim_fork_child();
  for (struct heap *heap = heap_first(); heap != NULL; heap = next) {
    next = heap->next;
    if (!is_whole_in_child(heap)) {
      lose_heap(heap);
      parked_are_whole = false;
      continue;
    }
    if (last == NULL) first = heap;
    else if (last->next != heap) last->next = heap;
    last = heap;
    mine_is_whole |= heap == mine;
    active_now += settle_heap(heap);
  }
  if (last != NULL && last->next != NULL) last->next = NULL;
  parked_fork_child(first, parked_are_whole);
  heap_go_on_in_child(first, active_now, mine_is_whole);
}
