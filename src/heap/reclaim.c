/* reclaim.c - see reclaim.h. */
#include "heap/reclaim.h"

/* Two in a cache line: neighbouring classes are often wanted by the same thread. */
struct reclaim_list {
  _Alignas(32) struct lock lock;
  _Atomic(struct arena *) first; /* written under the lock; relaxed without it: is there any? */
  struct arena *last;
};

/* A heap is in the list of the node that it was on when it was entered. */
static struct reclaim_list reclaim_lists[NODES][CLASS_COUNT];

static void append(struct reclaim_list *list, struct arena *arena, unsigned size_class) {
  arena->classes[size_class].next_reclaim = NULL;
  if (list->last != NULL) list->last->classes[size_class].next_reclaim = arena;
  else atomic_store_explicit(&list->first, arena, memory_order_relaxed);
  list->last = arena;
}

static void prepend(struct reclaim_list *list, struct arena *arena, unsigned size_class) {
  struct arena *first = atomic_load_explicit(&list->first, memory_order_relaxed);
  arena->classes[size_class].next_reclaim = first;
  atomic_store_explicit(&list->first, arena, memory_order_relaxed);
  if (first == NULL) list->last = arena;
}

static void enter(struct arena *arena, unsigned size_class, bool at_front) {
  /* acq_rel, as in reclaim_take: both are exchanges of one byte, so one comes first. Either this one finds false, then the
   * heap is entered now; or the one that sets false comes after it and reads what this one wrote, so that who
   * looks at the heap then sees what made it worth a look. Never before the batch is sent or the heap is parked. */
  if (atomic_exchange_explicit(&arena->inboxes[size_class].in_reclaim_list, true,
                               memory_order_acq_rel))
    return;
  struct reclaim_list *list = &reclaim_lists[arena_node(arena)][size_class];
  lock_acquire(&list->lock);
  if (at_front) prepend(list, arena, size_class);
  else append(list, arena, size_class);
  lock_release(&list->lock);
}

void reclaim_enter(struct arena *arena, unsigned size_class) { enter(arena, size_class, false); }

void reclaim_enter_again(struct arena *arena, unsigned size_class) {
  enter(arena, size_class, true);
}

void reclaim_enter_all(struct arena *arena) {
  for (unsigned c = 0; c < CLASS_COUNT; c++)
    if (atomic_load_explicit(&arena->classes[c].count, memory_order_relaxed) > 0)
      reclaim_enter(arena, c);
}

struct arena *reclaim_take(unsigned node, unsigned size_class) {
  struct reclaim_list *list = &reclaim_lists[node][size_class];
  /* relaxed: a hint; most classes have none */
  if (atomic_load_explicit(&list->first, memory_order_relaxed) == NULL) return NULL;
  lock_acquire(&list->lock);
  struct arena *arena = atomic_load_explicit(&list->first, memory_order_relaxed);
  if (arena != NULL) {
    struct arena *next = arena->classes[size_class].next_reclaim;
    atomic_store_explicit(&list->first, next, memory_order_relaxed);
    if (next == NULL) list->last = NULL;
  }
  lock_release(&list->lock);
  /* Out of the list first: from here on others may enter it again. acq_rel: as in enter. */
  if (arena != NULL)
    (void)atomic_exchange_explicit(&arena->inboxes[size_class].in_reclaim_list, false,
                                   memory_order_acq_rel);
  return arena;
}

/* --- around fork ------------------------------------------------------------------------------------------ */

void reclaim_each_lock(lock_visit *visit, void *argument) {
  for (unsigned node = 0; node < node_end(); node++)
    for (unsigned c = 0; c < CLASS_COUNT; c++) visit(&reclaim_lists[node][c].lock, argument);
}

/* Was this thread interrupted inside, by the signal handler that forked? It goes on with the list as it is. */
static bool is_free(const struct reclaim_list *list) {
  return atomic_load_explicit(&list->lock.state, memory_order_relaxed) == 0;
}

static void forget(struct reclaim_list *list) {
  (void)lock_is_whole_in_child(&list->lock);
  if (!is_free(list)) return;
  atomic_store_explicit(&list->first, NULL, memory_order_relaxed);
  list->last = NULL;
}

void reclaim_fork_child(void) {
  for (unsigned node = 0; node < node_end(); node++)
    for (unsigned c = 0; c < CLASS_COUNT; c++) forget(&reclaim_lists[node][c]);
}

static bool all_are_free(unsigned size_class) {
  for (unsigned node = 0; node < node_end(); node++)
    if (!is_free(&reclaim_lists[node][size_class])) return false;
  return true;
}

void reclaim_enter_in_child(struct arena *arena, bool parked) {
  for (unsigned c = 0; c < CLASS_COUNT; c++) {
    if (!all_are_free(c)) continue;
    if (atomic_load_explicit(&arena->inboxes[c].in_reclaim_list, memory_order_relaxed))
      atomic_store_explicit(&arena->inboxes[c].in_reclaim_list, false, memory_order_relaxed);
    if (parked && atomic_load_explicit(&arena->classes[c].count, memory_order_relaxed) > 0)
      reclaim_enter(arena, c);
  }
}
