/* heap_fork.c - what fork.c has to do with the heaps of threads. */
#include "heap/absent.h"
#include "heap/bins.h"
#include "heap/homes.h"
#include "heap/named.h"
#include "heap/parked.h"
#include "heap/remote.h"
#include "heap/samples.h"

void heap_each_lock(lock_visit *visit, void *argument) {
  visit(&heap_list_lock, argument);
  for (struct arena *arena = arena_first(); arena != NULL; arena = arena->next)
    visit(&arena->lock, argument);
}

/* To lock 10,000 heaps is to have the kernel copy 10,000 pages after the fork. */
void heap_each_lock_in_use(lock_visit *visit, void *argument) {
  visit(&heap_list_lock, argument);
  for (struct arena *arena = arena_first(); arena != NULL; arena = arena->next)
    if (!arena_is_bare(arena)) visit(&arena->lock, argument);
}

void heap_fork_prepare(void) {
  struct thread_cache *cache = cache_if_any();
  struct arena *mine = cache != NULL ? arena_beside(cache) : NULL;
  /* Those who wait for another's heap can wait for long: they are at no allocation, or memory has run out (LOCK_KEPT_MS). But one of them
   * may have taken the lock by now, and what it guards is its own then. Where guests are, they may hold what libc waits for (lock.h); nobody is a guest of a guest. */
  bool is_others = mine != NULL && !cache_is_guest(cache) && homes_is_shared(mine);
  bool kept = mine != NULL && !is_others && lock_keep_for_fork(&mine->lock);
  if (kept) {
    lock_acquire(&mine->lock); /* inside: nobody takes it away meanwhile */
    remote_settle(mine);
    lock_release(&mine->lock);
  }
  for (struct arena *arena = arena_first(); arena != NULL; arena = arena->next) {
    if (arena == mine && kept) continue;
    if (parked_is_moved_here(arena) && !homes_is_shared(cache_beside(arena)->arena))
      (void)lock_keep_for_fork(&arena->lock);
    else absent_note(arena);
  }
}

/* May it? Of a guest's nothing is read but what it uses (heap.h): each page that is costs a fault. */
static bool owns_slabs(struct arena *arena) { return !cache_is_guest(cache_beside(arena)); }

/* What was in such an arena, if anything, was not locked. */
static bool is_whole_in_child(struct arena *arena) {
  bool was_free = !lock_is_taken(&arena->lock);
  if (lock_is_whole_in_child(&arena->lock)) return true;
  if (!was_free || !arena_is_bare(arena)) return false;
  if (owns_slabs(arena)) remote_forget_drained(arena);
  return true;
}

static void lose_heap(struct arena *arena) {
  if (arena == &heap_samples) heap_samples_lost = true;
  else if (named_is(arena)) named_lose(arena);
  else atomic_store_explicit(&arena->state, ARENA_LOST, memory_order_relaxed);
  parked_count_bins(arena, 0);
  absent_lose(arena);
}

/* Is it this thread's, or about to be? */
static bool is_mine(struct arena *arena) {
  return cache_beside(arena) == cache_if_any() || parked_is_moved_here(arena);
}

/* A heap that the child keeps, of a thread or of none. True: it is among the active ones. */
static bool settle_heap(struct arena *arena) {
  if (arena == &heap_samples) return false;
  if (named_is(arena)) {
    named_end_walk_of_others(arena);
    return false;
  }
  if (owns_slabs(arena)) remote_forget_inbox(arena);
  if (is_mine(arena)) {
    parked_count_bins(arena, 0);
    return cache_beside(arena) == cache_if_any() ||
           atomic_load_explicit(&arena->transition_counts, memory_order_relaxed);
  }
  /* The bins of a parked heap are under its lock. */
  if (absent_take_over(arena)) parked_count_bins(arena, bins_bytes(cache_beside(arena)->bins));
  return false;
}

/* Nothing is written to a heap that stays as it is, for each page that is costs a copy. */
void heap_fork_child(void) {
  struct thread_cache *mine = cache_if_any();
  struct arena *first = NULL, *last = NULL, *next;
  uint64_t active_now = 0;
  bool mine_is_whole = false, parked_are_whole = lock_is_whole_in_child(&heap_list_lock);
  for (struct arena *arena = arena_first(); arena != NULL; arena = next) {
    next = arena->next;
    if (!is_whole_in_child(arena)) {
      lose_heap(arena);
      parked_are_whole = false;
      continue;
    }
    if (last == NULL) first = arena;
    else if (last->next != arena) last->next = arena;
    last = arena;
    mine_is_whole |= cache_beside(arena) == mine;
    active_now += settle_heap(arena);
  }
  if (last != NULL && last->next != NULL) last->next = NULL;
  parked_fork_child(first, parked_are_whole);
  heap_go_on_in_child(first, active_now, mine_is_whole);
}
