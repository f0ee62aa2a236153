/* share.h - heaps that many threads share, for the classes of small blocks.
 *
 * Each of some hundred threads that has slabs of its own holds a page or two of each class, and as many as it ever needed at once, for
 * a few live blocks: larson with 64 threads held 70 to 99 MB, of which 5 were live (docs/decisions/0029). So in a program with many heaps
 * a thread refills its bins from heaps that belong to none, as long as it does so now and then. What it frees of them goes into its own
 * bins, as long as these have room, and then back by the inbox.
 *
 * They are common heaps (common.h) apart from the others: there are several sets, each thread keeps to one, so that few meet at a lock; and
 * they lie one beside the other, so that `free` knows one of their bins, and its own of the same class, by the address.
 */
#ifndef HAK_SHARE_H
#define HAK_SHARE_H

#include "heap/heap.h"
#include "superslab/node.h"

#define SHARE_BYTES ((size_t)1024)
#define SHARE_LAST CLASS_FOR(SHARE_BYTES)

enum {
  SHARE_SETS = 2,
  SHARE_HEAPS_A_SET = 4,
  SHARE_HEAPS = SHARE_SETS * SHARE_HEAPS_A_SET,
  SHARE_STRIDE = 16 * 1024 /* bytes from one to the next */
};

union share_place {
  struct heap heap;
  char bytes[SHARE_STRIDE];
};
_Static_assert(sizeof(union share_place) == SHARE_STRIDE, "a power of two, for share_bin");

/* Pages of those that are not in use are never touched. */
extern union share_place share_places[SHARE_HEAPS] HAK_HIDDEN;

/** Does `bin` belong to one of these heaps? The hardened variant has none. */
HAK_INLINE bool share_has_bin(const struct bin *bin) {
  return !HAK_HARDENED && (uintptr_t)bin - (uintptr_t)share_places < sizeof share_places;
}

/** The bin of `heap` for the class of `bin`, which belongs to one of these heaps. */
HAK_INLINE struct bin *share_bin(struct heap *heap, const struct bin *bin) {
  size_t at = ((uintptr_t)bin - (uintptr_t)share_places) % SHARE_STRIDE;
  return (struct bin *)(void *)((char *)heap + at);
}

/** Are there so many heaps now that the class is shared? (Bins may hold shared blocks even when it is not any more.) */
HAK_INLINE bool share_is_on(unsigned size_class) {
  return !HAK_HARDENED && size_class <= SHARE_LAST && heap_made() > FEW_HEAPS && !node_are_many();
}

/** A heap of a thread that is new, or was another's in a fork's parent: which set it keeps to. Before others know it. */
void share_begin(struct heap *heap);

/** Does the heap's thread refill the class from such a heap? Not if it did so often of late: then from slabs of its own. The heap's thread only. */
bool share_wanted(const struct heap *heap, unsigned size_class);

/** The one from which the thread refills it, which is counted; NULL: it was lost in a fork. The caller holds no lock. */
struct heap *share_heap(struct heap *heap, unsigned size_class);

/** As common_is_due, of these heaps. */
bool share_is_due(unsigned size_class);

/** In a fork's child: another thread was inside. Nobody takes anything from it any more. False: it is none of these. */
bool share_lose(const struct heap *heap);

#endif
