/* lists.h - SuperSlabs by node and by their longest run of free slices, those whose huge page was broken up in lists of their own. A span
 * is taken from the tightest list that has room, so that full SuperSlabs fill up and nearly empty ones drain and go back
 * whole.
 *
 * For this room alone. All under superslab_lock. */
#ifndef HAK_LISTS_H
#define HAK_LISTS_H

#include "superslab/superslab.h"

#define ALL_SLICES UINT32_MAX

/** Those that can be handed out. */
HAK_INLINE uint32_t slices_of(const struct superslab *superslab) {
  return HAK_HARDENED && superslab->fenced ? ALL_SLICES & ~UINT32_C(1) : ALL_SLICES;
}

/* By longest free run, then by the same those that are split. One that was split stays where it is until one of its
 * slices is taken or freed. Hardened: the same again for fenced ones, which have Large blocks alone. */
enum { RUNS = SLICES_PER_UNIT + 1, SETS = HAK_HARDENED ? 2 : 1, LISTS = 2 * RUNS * SETS };

/* Of one node. */
struct node_lists {
  struct superslab *of[LISTS];
  uint64_t nonempty[2 * SETS]; /* bit i: of[i], and of[RUNS + i], has members */
  uint64_t live;               /* SuperSlabs */
};

struct superslab_lists {
  struct node_lists first;        /* of node 0 */
  struct superslab *next_scanned; /* where superslab_take_dirty goes on */
  uint64_t live, peak;            /* SuperSlabs */
  _Atomic size_t slices_in_use;   /* handed out as spans; relaxed, as the next */
  _Atomic size_t dirty_slices;    /* of all; relaxed: read without the lock as a hint */
  uint8_t era;                    /* of the lists; lists_forget */
};
extern struct superslab_lists superslab_lists;
extern struct node_lists superslab_more_lists[NODES - 1] HAK_HIDDEN; /* of the other nodes */

HAK_INLINE struct node_lists *lists_of(unsigned node) {
  return HAK_LIKELY(node == 0) ? &superslab_lists.first : &superslab_more_lists[node - 1];
}

/** `count` slices from `first` on. */
HAK_INLINE uint32_t slices_mask(unsigned first, unsigned count) {
  return (uint32_t)((((uint64_t)1 << count) - 1) << first);
}

/** Free slices that hold something, and were not given back lazily. */
HAK_INLINE uint32_t dirty_mask_of(const struct superslab *superslab) {
  return superslab->free_mask & superslab->dirty_mask & ~superslab->lazily_freed_mask;
}

HAK_INLINE unsigned dirty_slices_of(const struct superslab *superslab) {
  return (unsigned)__builtin_popcount(dirty_mask_of(superslab));
}

void lists_insert(struct superslab *superslab);
void lists_remove(struct superslab *superslab);
/** Lists again after free_mask has changed. */
void lists_update(struct superslab *superslab);

/** After a change of the masks of a SuperSlab that had `before` dirty slices. */
void lists_count_dirty(unsigned before, unsigned after);
/** So many more slices are handed out as spans, or fewer. */
HAK_INLINE void lists_count_in_use(ptrdiff_t slices) {
  size_t all = atomic_load_explicit(&superslab_lists.slices_in_use, memory_order_relaxed);
  atomic_store_explicit(&superslab_lists.slices_in_use, all + (size_t)slices, memory_order_relaxed);
}
/** It is live. */
void lists_count_live(const struct superslab *superslab);
/** It is no more. */
void lists_uncount_live(const struct superslab *superslab);

enum room { ROOM_ANYWHERE, ROOM_AT_FORMER_END, ROOM_IN_MEMORY };

/** A SuperSlab of the node with `slices` free ones in a row, from `*first` on, which is a multiple of `alignment`. `split`: those whose
 * huge page was broken up will do, too. `fenced`: one that is, else one that is not. */
struct superslab *lists_find_room(unsigned node, unsigned slices, unsigned alignment, bool split,
                                  bool fenced, enum room room, unsigned *first);
/** The same of any other node, where no memory is to be had. */
struct superslab *lists_find_far(unsigned node, unsigned slices, unsigned alignment, bool fenced,
                                 unsigned *first);

/** A new SuperSlab beside free slices in old ones: only where half of all slices stay in use. */
bool lists_may_spread(void);

/** In the child of a fork where the lists may be cut in half: empty ones, of another era. */
void lists_forget(void);

#endif
