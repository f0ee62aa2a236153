/* reclaim.h - which heaps may have memory for others: a list of heaps for each size class on each memory node.
 *
 * Who needs memory finds a heap that sleeps at the front of a list instead of looking at all heaps. A heap sleeps that is
 * parked (its thread ended), or whose inbox and drained lists have passed BACKLOG_BYTES (its thread looks away). It is entered
 * for a class by who makes it worth a look: the thread that parks it, for the classes of which it owns slabs, each that sends
 * it a batch while it sleeps, for the batch's class, and the purger, for slabs that it had in its hands. It is taken
 * out by who looks at it, and entered again if it gave something. So a look finds something, or uses up one entry: in the
 * long run no search takes longer because there are more heaps.
 *
 * The lists are hints in this sense: a heap that was sent less than BACKLOG_BYTES may be in none. A heap in
 * a list need not sleep any more.
 *
 * A list has a lock of its own, the last that is taken: nobody waits for another while holding it, and it is held for a few
 * stores. A lock-free list would have to survive a single pop (ABA) for no gain: there is one search or entry for some
 * thousand blocks (docs/decisions/0034).
 */
#ifndef HAK_RECLAIM_H
#define HAK_RECLAIM_H

#include "heap/heap.h"
#include "superslab/node.h"

/* Inboxes and drained lists above this are worth an attempt to adopt: the owner seems to sleep. */
#define BACKLOG_BYTES (64 * 1024)

/** Does it sleep? A hint unless the caller holds its lock. What was sent before the sender entered it is seen by who took it out. */
HAK_INLINE bool reclaim_has_backlog(const struct arena *arena) {
  /* relaxed: ordered by the exchanges of arena->in_reclaim_list (enter in reclaim.c) */
  unsigned state = atomic_load_explicit(&arena->state, memory_order_relaxed);
  return state == ARENA_PARKED ||
         (state == ARENA_ACTIVE &&
          atomic_load_explicit(&arena->inbox_bytes, memory_order_relaxed) >= BACKLOG_BYTES);
}

/** Enters the heap into the list of the class, at the end, unless it is there: it may have something. The caller may hold heaps' locks. */
void reclaim_enter(struct arena *arena, unsigned size_class);

/** The same at the front, for one that just gave something: the next search goes on with it, while blocks gather in the others. In
 * turn each would be asked for the few blocks that came since, each of another slab. */
void reclaim_enter_again(struct arena *arena, unsigned size_class);

/** As reclaim_enter, for all classes of which it owns slabs. */
void reclaim_enter_all(struct arena *arena);

/** Takes the first heap of the class out of the list of a node; NULL: no heap has anything there, as far as is known. It may be on another
 * node by now. */
struct arena *reclaim_take(unsigned node, unsigned size_class);

/** Around fork: the locks; in the child first all lists are emptied, then each heap that it keeps is entered if it is parked. */
void reclaim_each_lock(lock_visit *visit, void *argument);
void reclaim_fork_child(void);
void reclaim_enter_in_child(struct arena *arena, bool parked);

#endif
