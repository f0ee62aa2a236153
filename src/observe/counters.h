/* counters.h - what is counted for statistics, by size class.
 *
 * Each heap has counters of its own, which only its thread writes, so that counting needs no atomic
 * read-modify-write; who has no heap counts in counters_shared. Anybody may read at any time: a figure is
 * right by itself, sums over several may be a moment apart.
 */
#ifndef HAK_OBSERVE_COUNTERS_H
#define HAK_OBSERVE_COUNTERS_H

#include "os/os.h"

/* The size classes, and after them the two tiers that have none. */
enum { COUNTED_LARGE = 77, COUNTED_HUGE, COUNTED_CLASSES };

enum counter {
  COUNT_FAST,        /* blocks handed out: from the thread's bin */
  COUNT_SLOW,        /* blocks handed out: the bin was empty; all Large and Huge ones */
  COUNT_FREE_LOCAL,  /* blocks freed: onto the own bin; all Large and Huge ones */
  COUNT_FREE_REMOTE, /* blocks freed: to another heap */
  /* In the observe variant only. */
  COUNT_FROM_SLABS,  /* blocks that refills got: from free lists of the heap's slabs */
  COUNT_FROM_OTHERS, /* from batches that other heaps sent */
  COUNT_CARVED,      /* from memory of slabs that was no block yet */
  COUNT_ADOPTED,     /* refills for which slabs or batches of another heap were taken over */
  COUNT_NEW_SLAB,    /* refills for which a slab was made */
  COUNT_TO_SLABS,    /* blocks that went from a bin back into their slabs */
  COUNTERS
};

struct counters {
  _Atomic uint64_t of[COUNTED_CLASSES][COUNTERS];
};

/* Where slabs, Large spans and Huge blocks came from. */
enum supply {
  SUPPLY_HIT,       /* a SuperSlab in use had room, or the warm pool had units */
  SUPPLY_MISS,      /* the OS was asked for units, whether it gave them or not */
  SUPPLY_PREFILLED, /* put into the warm pool ahead of need */
  SUPPLIES
};

/* Of threads without a heap. */
extern struct counters counters_shared HAK_HIDDEN;
extern _Atomic uint64_t counters_supplied[COUNTED_CLASSES][SUPPLIES] HAK_HIDDEN;

HAK_INLINE uint64_t counters_read(const _Atomic uint64_t *counter) {
  return atomic_load_explicit(counter, memory_order_relaxed);
}

/** For the one who may write: the heap's thread, or who holds the lock that stands for it. */
HAK_INLINE void counters_add_alone(_Atomic uint64_t *counter, uint64_t n) {
  atomic_store_explicit(counter, counters_read(counter) + n, memory_order_relaxed);
}

/* In the fast variant nothing is counted. */

HAK_INLINE void counters_add(struct counters *counters, unsigned counted_class, enum counter which,
                             uint64_t n) {
  if (!HAK_FAST) counters_add_alone(&counters->of[counted_class][which], n);
}

/** Adds 1 on behalf of a thread without a heap. */
HAK_INLINE void counters_add_shared(unsigned counted_class, enum counter which) {
  if (!HAK_FAST)
    atomic_fetch_add_explicit(&counters_shared.of[counted_class][which], 1, memory_order_relaxed);
}

/** The caller holds superslab_lock. */
HAK_INLINE void counters_supply(unsigned counted_class, enum supply which, uint64_t n) {
  if (!HAK_FAST) counters_add_alone(&counters_supplied[counted_class][which], n);
}

#endif
