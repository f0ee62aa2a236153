/* parked.h - heaps whose threads have ended: where the next thread finds one, and how much lies in their bins. */
#ifndef HAK_PARKED_H
#define HAK_PARKED_H

#include "heap/heap.h"

/* Under heap_list_lock: */

/** Enters a heap into the list of its node. */
void parked_put(struct arena *arena);
/** Takes the one with slabs of its own that was parked last on a node, as with parked_begin_to_move(arena, false); NULL: there is none whose lock
 * the calling thread does not hold. `alone`: one that no guest uses. */
struct arena *parked_take(unsigned node, bool alone);
/** Takes one without slabs. */
struct arena *parked_take_guest(void);
/** In the child of a fork: of the heaps from `first` on, all that have no thread are in a list. `whole`: the lists are as this thread, or another
 * under the lock, left them. */
void parked_fork_child(struct arena *first, bool whole);

/* Without a lock: */

/** How many there are. A hint. */
uint64_t parked_heaps(void);
/** So much is in the bins of a heap without a thread; 0: it gets one. */
void parked_count_bins(struct arena *arena, size_t bytes);
/** The sum. A hint. */
size_t parked_bin_bytes(void);

/** From now on the heap is the calling thread's, though it is not its thread_cache: it takes it, has borrowed it, or parks it. A
 * handler that interrupts this may fork, and in the child the thread goes on with the heap. `counts`: it is among the active ones. */
void parked_begin_to_move(struct arena *arena, bool counts);
void parked_end_to_move(struct arena *arena);
/** Is it so of the calling thread? */
bool parked_is_moved_here(const struct arena *arena);

#endif
