/* slabs.h - the slabs of a heap: in which list each is, and how blocks go back into them.
 *
 * A slab with free blocks is in one of two lists of its class: the partial ones, and those of which nothing can be had but
 * pages that were given back. Everything here happens under arena->lock, which the caller holds unless it says otherwise.
 */
#ifndef HAK_SLABS_H
#define HAK_SLABS_H

#include "heap/heap.h"

/** Bytes of the slabs that the heap owns; without the lock a hint. */
HAK_INLINE size_t slabs_owned(const struct arena *arena) {
  return atomic_load_explicit(&arena->slab_bytes, memory_order_relaxed);
}

/* A slow path holds a lock so often at most; a block that goes back into its slab is a cache miss or two, so 512 are some
 * 0.1 ms for which another thread may have to wait. */
enum { HOLDS_MOST = 8, BLOCKS_A_HOLD = 512, SLABS_A_HOLD = 32 };

/** Bytes that were freed and wait in the inboxes and drained lists. A hint. */
HAK_INLINE size_t slabs_waiting(const struct arena *arena) {
  int64_t bytes = atomic_load_explicit(&arena->inbox_bytes, memory_order_relaxed);
  return bytes > 0 ? (size_t)bytes : 0;
}

/** Counts blocks that came into free lists of the heap's slabs, or went out of them (below 0): those of this slab. */
HAK_INLINE void slabs_count_free(struct arena *arena, const struct slab *slab, int64_t blocks) {
  _Atomic uint32_t *free_blocks = &arena->inboxes[slab->size_class].free_blocks;
  uint32_t before = atomic_load_explicit(free_blocks, memory_order_relaxed);
  atomic_store_explicit(free_blocks, (uint32_t)(before + blocks), memory_order_relaxed);
  arena->free_bytes += (size_t)(blocks * (int64_t)slab_block_size(slab));
}

/** Counts, for the observe variant alone, what a refill or an overflow consists of. */
HAK_INLINE void slabs_count(struct arena *arena, unsigned size_class, enum counter which,
                            uint64_t n) {
  if (HAK_OBSERVE && arena->counters != NULL) counters_add(arena->counters, size_class, which, n);
}

/** Takes a slab out of the list of its class that it is in, or puts it into the one it belongs to, the partial ones at
 * the end. */
void slabs_unlist(struct arena *arena, struct slab *slab);
void slabs_enlist(struct arena *arena, struct slab *slab);

/** After blocks were taken out of a listed slab: into the list where it belongs now, or none. */
HAK_INLINE void slabs_list_again(struct arena *arena, struct slab *slab) {
  if (slab_is_decommitted(slab) || !slab_has_room(slab)) slabs_unlist(arena, slab);
  if (slab_is_decommitted(slab)) slabs_enlist(arena, slab);
}

/** A slab, or a Large or Huge block by its descriptor, in no list, into a ring; or out of the one that it is in. */
HAK_INLINE void slabs_enter_ring(struct slab *ring, struct slab *slab, enum slab_list list) {
  slab->prev = ring->prev;
  slab->next = ring;
  slab->prev->next = slab;
  ring->prev = slab;
  slab->listed = (uint8_t)list;
}
HAK_INLINE void slabs_leave_ring(struct slab *slab) {
  slab->prev->next = slab->next;
  slab->next->prev = slab->prev;
  slab->next = slab->prev = NULL;
  slab->listed = LIST_NONE;
}

/** The slab, which is in no list, is the heap's from now on; or no more, and in no list. */
void slabs_own(struct arena *arena, struct slab *slab);
void slabs_disown(struct arena *arena, struct slab *slab);

/** Gives up a slab that is empty. */
void slabs_give_up(struct arena *arena, struct slab *slab);

/** Puts back `count` blocks of one slab of the heap's, linked from `first` to `last`. `keep_last`: as below. */
void slabs_put_run(struct arena *arena, struct slab *slab, void *first, void *last, unsigned count,
                   bool keep_last);

/** Puts back what a bin of the calling thread held, or a part of it. Blocks of others' slabs go to their owners. Lets go of the lock now and then. `keep_last`: one
 * empty slab of the class stays. */
void slabs_put_list(struct arena *arena, unsigned size_class, void *list, bool keep_last);
/** The same, of a bin in which many blocks may be others': these are gathered by owner. */
void slabs_put_mixed(struct arena *arena, unsigned size_class, void *list, bool keep_last);

/** Puts back some blocks of a parked heap's bin; false: there are no more. */
bool slabs_put_parked_bin(struct arena *arena, unsigned size_class, bool keep_last);

/** Puts back what some batches of others' frees hold; false: there are no more. */
bool slabs_put_batches(struct arena *arena, unsigned size_class, bool keep_last);
/** The same of the class whose turn it is; false: of no class are there any. */
bool slabs_put_next(struct arena *arena, bool keep_last);

/** Where three quarters of a large home are free, puts back about so many bytes of what others' frees hold, one class after the other. Lets go of the lock
 * now and then. superslab_settle is to be called after it. */
void slabs_put_waiting(struct arena *arena, size_t bytes);

/** Puts back what the bins of the calling thread's heap hold. Takes the lock itself, once for each class: others
 * wait for one bin at most. */
void slabs_drain_bins(struct thread_cache *cache);

#endif
