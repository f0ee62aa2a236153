/* homes.h - the heaps that own slabs, and which of them a thread's bins are filled from.
 *
 * As many heaps own slabs as threads may run at once, eight at least, on each memory node. A thread that begins while there are
 * fewer gets such a heap for its own. Each further thread is a guest: it has bins, but its arena, from whose slabs they are filled, is the
 * heap that the fewest threads use. So what many threads hold follows the processors, not the threads; and since no more
 * threads run at a moment than there are homes, a home's lock is nearly always free (docs/decisions/0040).
 *
 * Who shares a home waits for its lock, and holds no other heap's meanwhile. All others only try it.
 */
#ifndef HAK_HOMES_H
#define HAK_HOMES_H

#include "heap/heap.h"

/* Under heap_list_lock: */

/** May one more heap of the node own slabs? */
bool homes_may_be_more(unsigned node);
/** The heap owns slabs from now on. Where there is no room for it, it is no one's home but its own. */
void homes_enter(struct arena *arena);
/** The heap of the node that the fewest threads use; NULL: there is none whose lock the calling thread does not hold. */
struct arena *homes_least_used(unsigned node);

/** In the child of a fork: the homes are those of the heaps from `first` on. */
void homes_fork_child(struct arena *first);

/* Without a lock: */

/** How many there are on a node, and each of them. Their number only grows. */
unsigned homes_on(unsigned node);
struct arena *homes_at(unsigned node, unsigned place);
/** How many there are, 1 at least. A hint. */
unsigned homes_count(void);

/** One thread more uses the heap's arena, or one less. */
void homes_use(struct arena *arena);
void homes_leave(struct arena *arena);

/** How many threads use the heap's arena, 1 at least: they share what one may keep. A hint: in the child of a handler that forked while its
 * thread took or left a heap it is wrong by one, perhaps below 0. */
HAK_INLINE unsigned homes_users(const struct arena *arena) {
  int32_t users = (int32_t)atomic_load_explicit(&arena->users, memory_order_relaxed);
  return users > 0 ? (unsigned)users : 1;
}

/** Does the thread share its home? A hint. */
HAK_INLINE bool homes_is_shared(const struct arena *arena) { return homes_users(arena) > 1; }

#endif
