/* named.h - first-class heaps (hak_heap_create): blocks that are gone all at once when their heap is destroyed.
 *
 * A named heap is a struct arena that is no thread's. Who allocates from it or frees into it holds its lock, also for its bins.
 * Its slabs are listed in the address map as those of any arena, so that free() finds it. A block of it is never
 * gathered for its owner as other heaps' are (remote.c): once the heap is destroyed, no thread holds a link into its memory. For the
 * same reason no slab comes from another heap or goes to one. Large and Huge blocks are in a ring, by the descriptor
 * of their first slice.
 *
 * Sizes in bytes. `live_bytes` counts what blocks have, not what was asked for.
 */
#ifndef HAK_NAMED_H
#define HAK_NAMED_H

#include "heap/bins.h"

enum { NAMED_BYTES = 64 }; /* of a name, with its end */

struct hak_heap {
  struct arena arena; /* first: an inbox leads here */
  /* Under its lock. As far from the arena as a thread's (heap.h): so tools find them. */
  _Alignas(64) struct bin bins[CLASS_COUNT];
  struct slab full;   /* ring of the slabs without room */
  struct slab blocks; /* ring of Large and Huge blocks */
  size_t limit, live_bytes, live_blocks, peak_bytes, span_bytes;
  uint64_t refused; /* allocations that the limit has refused */
  bool lost;        /* in the child of a fork: another thread was at work in it */
  uint32_t walker;  /* lock_self() of the thread that walks, 0: none does */
  /* The slab that its visitor is at; NULL: none, or in a walk within a walk. */
  const struct slab *walked;
  /* Lists of the blocks that the visitor has freed there: no walk comes to them again. */
  void *walked_free[CLASS_COUNT];
  char name[NAMED_BYTES];
  /* Once. */
  uint16_t number;
  /* Under heap_list_lock. */
  bool exists;
  struct hak_heap *next_unused;
};

HAK_INLINE bool named_is(const struct arena *arena) {
  return atomic_load_explicit(&arena->state, memory_order_relaxed) == ARENA_NAMED;
}

/** The named heap that a bin of this class belongs to, or NULL: it is another heap's. */
HAK_INLINE struct hak_heap *named_of_inbox(struct inbox *inbox, unsigned size_class) {
  struct arena *arena = arena_of_inbox(inbox, size_class);
  return named_is(arena) ? (struct hak_heap *)(void *)arena : NULL;
}

/** The named heap of a Large or Huge block, or NULL. */
struct hak_heap *named_of_span(const struct slab *descriptor);

/** A new arena; `name` is cut to what fits. NULL: no memory, or 65,535 heaps exist. */
struct hak_heap *named_create(const char *name, size_t limit);
/** Frees all blocks of a heap that no other thread uses any more, and the heap. */
void named_destroy(struct hak_heap *named);

/** The heap's lock, when no other thread walks. */
void named_lock(struct hak_heap *named);
/** The same, and purger_batch_lock: no slab of the heap is in the purger's hands, in no list. */
void named_lock_beside_purger(struct hak_heap *named);

/** A block of the class, as it lay in its list; NULL with `*refused`: beyond the limit, or the heap is lost; without: no memory. */
void *named_take(struct hak_heap *named, unsigned size_class, bool *refused);
/** Frees a block. True: slabs may have become slices. */
bool named_put(struct hak_heap *named, unsigned size_class, void *block);

/** Counts a Large or Huge block in; false: it is beyond the limit. */
bool named_keep(struct hak_heap *named, struct slab *descriptor, size_t usable);
/** Would so many bytes more be within the limit? Counts a refusal if not. */
bool named_may_grow(struct hak_heap *named, size_t bytes);
/** Before a block is resized: counts `more` bytes in, so that the limit holds meanwhile, and takes a Large or Huge one out of the walks'
 * list. `descriptor` is NULL for smaller ones. False: `more` is beyond the limit, which counts as a refusal, and nothing has changed. */
bool named_begin_resize(struct hak_heap *named, struct slab *descriptor, size_t usable,
                        size_t more);
/** Afterwards: it has `usable` bytes, of the `counted` ones. */
void named_end_resize(struct hak_heap *named, struct slab *descriptor, size_t counted,
                      size_t usable);
/** Counts it out before it is freed. */
void named_forget(struct hak_heap *named, struct slab *descriptor, size_t usable);

/** Calls `visit` for each live block, without a lock, until it says false. False: it has. Other threads that use the heap wait meanwhile, the
 * purger passes it by; `visit` may free the block that it is given. */
typedef bool named_visit(void *block, size_t usable, void *argument);
bool named_walk(struct hak_heap *named, named_visit *visit, void *argument);

/** Is a walk under way, so that no slab may change lists? Under its lock. */
HAK_INLINE bool named_is_walked(const struct arena *arena) {
  return named_is(arena) && ((const struct hak_heap *)(const void *)arena)->walker != 0;
}

/** In the child of a fork: the walk of a thread that is not there has ended. */
void named_end_walk_of_others(struct arena *arena);
/** In the child of a fork that found the heap's lock with another thread. */
void named_lose(struct arena *arena);

/** What is known of the arena, all of one moment. */
struct named_figures {
  uint64_t live_blocks, live_bytes, peak_bytes, held_bytes, limit, refused;
};
void named_figures_get(struct hak_heap *named, struct named_figures *figures);

/** The heap of this number, which may have been destroyed; numbers go from 1 up to what named_most() says. */
struct hak_heap *named_by_number(unsigned number);
bool named_exists(struct hak_heap *named);
unsigned named_most(void);

#endif
