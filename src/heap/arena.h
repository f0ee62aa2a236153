/* arena.h - what owns slabs. Threads fill their bins from it, and it outlives them.
 *
 * Glossary
 *   inbox   batches of a class that threads sent: one lock-free stack. The address map names, for each slab, the inbox of its class in the
 *           arena that owns it.
 *   drained    batches taken from an inbox and not used yet.
 *
 * A free block is in exactly one place: one bin, one slab's list, one outgoing batch, one inbox, one drained list. Any of them may hold
 * blocks of slabs that another arena owns (a slab may be adopted while its blocks are under way); such a block finds its owner when
 * it goes back to its slab.
 *
 * Who may touch what is said at each group of fields. An arena is never freed.
 */
#ifndef HAK_ARENA_H
#define HAK_ARENA_H

#include "observe/counters.h"
#include "slab/slab.h"

struct batch; /* remote.c */

/* As large as a bin, and as far from the arena's beginning as the class's bin is from its cache's: so free() finds the bin of a block by what
 * the map names (cache.h). */
struct inbox {
  _Atomic(struct batch *) first; /* push release, take acquire */
  /* In the slabs' lists. Written under the lock; relaxed: a hint for front/move.c. */
  _Atomic uint32_t free_blocks;
};

/* A line of the processor's cache. Under the arena's lock, but for what is said. */
struct arena_class {
  /* Slabs with free blocks or uncarved memory, in the order of use. */
  _Alignas(64) struct slab *first;
  struct slab *last;
  struct slab *decommitted;  /* of which nothing can be had but what was given back: used last */
  struct slab *next_scanned; /* where the purger goes on (release.c) */
  struct batch *drained;
  _Atomic uint32_t count;   /* slabs owned, full ones too; relaxed: a hint for adopters */
  _Atomic uint32_t partial; /* slabs in the first list; relaxed: a hint for front/move.c */
  uint8_t idle_scans;       /* scans of the purger since the last refill or overflow, saturating */
  atomic_bool sorts;  /* refills sort what waits (refill.c); relaxed: a hint without the lock */
  uint8_t next_asked; /* place of the arena that is asked next for memory (adopt.c) */
};
_Static_assert(sizeof(struct arena_class) == 64, "one line");

/* In arena->in_transition: the heap is in no list of parked ones, and its thread is not in this process. No lock_self(). */
enum { TRANSITION_GONE = 1 };

enum arena_state {
  ARENA_ACTIVE,
  ARENA_PARKED,
  ARENA_SAMPLES, /* no thread's, samples.h */
  ARENA_NAMED,   /* no thread's, named.h */
  ARENA_LOST     /* of a fork's parent: its lock was another's */
};

struct arena {
  struct inbox inboxes[CLASS_COUNT]; /* any thread */

  /* Under `lock`. Threads that use the arena take it on slow paths only. Others only try it while they hold another arena's; who holds
   * none (release_purge) may wait for it. */
  struct arena_class classes[CLASS_COUNT];
  size_t decommitted_bytes;   /* of the slabs: slab_decommitted_bytes */
  size_t recommitted_bytes;   /* of these, in use again since the purger last gave something back */
  size_t peak_committed;      /* most that the slabs owned, less decommitted_bytes, ever were */
  size_t growth_purge_from;   /* peak_committed from which it gives back as it grows (growth.h) */
  bool growth_purged;         /* what is in holes was given back by that, not because it rested */
  uint8_t growth_purge_class; /* where it goes on; under purger_scan_lock */
  uint8_t turn; /* class of the inbox that goes back into slabs next (slabs_put_waiting) */

  /* From here on what a guest's heap has as well (heap.h): nothing before it is ever touched there.
   * Any thread. */
  _Alignas(64) struct lock lock;
  _Atomic uint8_t state;  /* enum arena_state; written under `lock` */
  _Atomic uint8_t node;   /* where its thread last asked for memory (node.h); relaxed: a hint */
  _Atomic uint32_t users; /* threads that use it; relaxed: a hint for who chooses one */
  /* The thread (lock_self) that has the heap, and whose cache it is not: it takes it just now, has borrowed it, or parks it. A handler
   * that interrupts this may fork, and the child goes on with it. Relaxed: that thread's own. */
  _Atomic uint32_t in_transition;
  atomic_bool transition_counts; /* among the active ones */
  /* In a fork's child: what its thread left was not looked at so far (absent.h). Written under `lock`; relaxed: a hint without it. */
  atomic_bool in_doubt;
  _Atomic size_t parked_bins;  /* relaxed: a hint; about the bytes in its bins while it is parked */
  _Atomic int64_t inbox_bytes; /* relaxed: a hint; about the bytes that were sent and wait */

  /* Under `lock` again. */
  _Alignas(64) size_t free_bytes; /* in the slabs' free lists */
  size_t free_low;      /* least free_bytes since the purger last scanned, about (purger_is_due) */
  uint64_t sum_at_fork; /* of what its thread uses without a lock (absent.h) */
  _Atomic size_t slab_bytes; /* of the slabs owned; relaxed: a hint without the lock */

  /* Once. */
  struct arena *next;        /* list of all */
  struct counters *counters; /* NULL: nothing is counted */

  /* Under heap_list_lock. */
  struct arena *next_parked;
};

HAK_INLINE unsigned arena_node(const struct arena *arena) {
  return atomic_load_explicit(&arena->node, memory_order_relaxed);
}

HAK_INLINE void arena_set_node(struct arena *arena, unsigned node) {
  atomic_store_explicit(&arena->node, (uint8_t)node, memory_order_relaxed);
}

/** The state as it was at some moment; under the lock as it is. */
HAK_INLINE enum arena_state arena_state(const struct arena *arena) {
  return (enum arena_state)atomic_load_explicit(&arena->state, memory_order_relaxed);
}

/** Does `inbox`, as the address map names it, lie in the arena: does it own the block's slab? Also false for NULL, which stands for every
 * pointer that is not a block of a slab. */
HAK_INLINE bool arena_owns(const struct arena *arena, const struct inbox *inbox) {
  return (uintptr_t)inbox - (uintptr_t)arena->inboxes < sizeof arena->inboxes;
}

/** The arena of an inbox of this class. */
HAK_INLINE struct arena *arena_of_inbox(struct inbox *inbox, unsigned size_class) {
  _Static_assert(offsetof(struct arena, inboxes) == 0, "an arena begins with its inboxes");
  return (struct arena *)(void *)(inbox - size_class);
}

/** Has it no thread, and nothing that anybody could use, as far as is known? Scans pass such arenas by without their lock.
 * relaxed: a hint; what is missed is found by the next scan. */
HAK_INLINE bool arena_is_bare(const struct arena *arena) {
  return arena_state(arena) == ARENA_PARKED &&
         atomic_load_explicit(&arena->parked_bins, memory_order_relaxed) == 0 &&
         atomic_load_explicit(&arena->inbox_bytes, memory_order_relaxed) <= 0 &&
         atomic_load_explicit(&arena->slab_bytes, memory_order_relaxed) == 0 &&
         !atomic_load_explicit(&arena->in_doubt, memory_order_relaxed);
}

/** Enters an arena, whose lock is initialised, into the list of all. */
void arena_list(struct arena *arena);

/** First of the list of all arenas; follow `next`. The list only grows, at its front. */
struct arena *arena_first(void);
extern _Atomic(struct arena *) arena_all HAK_HIDDEN;

#endif
