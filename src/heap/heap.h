/* heap.h - the thread heap: what a thread allocates from without asking anybody.
 *
 * Glossary
 *   bin        last-in-first-out list of free blocks of one class, used by the heap's thread alone,
 *              without a lock. The block that was freed last is the first to be handed out.
 *   outgoing   blocks freed here that belong to another heap, gathered until a batch is worth sending.
 *   inbox      batches that others sent: one lock-free stack for each class.
 *   drained    batches taken from the inbox and not used yet.
 *   reclaim    lists of heaps that may have memory of a class for others (reclaim.h).
 *   parked     the heap of an ended thread, with all it holds, waiting for the next thread.
 *
 * A free block is in exactly one place: one bin, one slab's list, one outgoing batch, one inbox, one drained list.
 * Any of them may hold blocks of slabs that another heap owns (a slab may be adopted while
 * its blocks are under way); such a block finds its owner when it goes back to its slab.
 *
 * Who may touch what is said at each group of fields. A heap is never freed.
 */
#ifndef HAK_HEAP_H
#define HAK_HEAP_H

#include "large/large.h"
#include "observe/counters.h"
#include "slab/slab.h"

struct bin {
  void *head;
  int32_t room;      /* blocks it may still take; free() counts down and acts below 0 */
  uint32_t capacity; /* blocks it may hold; grows with use, see bin_overflow */
};

struct class_slabs {
  struct slab *first; /* slabs with free blocks or uncarved memory, to be used in this order */
  struct slab *last;
  struct slab
      *decommitted; /* slabs of which nothing can be had but what was given back: used last */
  struct slab *next_scanned; /* where the purger goes on (release.c) */
  _Atomic uint32_t
      count; /* slabs of the class owned, full ones too; relaxed: a hint for adopters */
  _Atomic uint32_t partial; /* slabs in the first list; relaxed: a hint for front/move.c */
};

enum { OUTGOING_SLOTS = 64 };

/* 32 bytes, so that a slot lies in one line, and its address takes three instructions fewer than that of one of 24. */
struct outgoing {
  _Alignas(32) struct bin *owner; /* bin of the heap that the blocks go to; NULL: never used */
  void *head;                     /* NULL: nothing gathered */
  uint16_t count, limit;
  uint8_t size_class;
  bool waited; /* what is in it was there when it was last looked at (remote.c) */
};

struct batch;      /* remote.c */
struct quarantine; /* quarantine.c */

/* In heap->in_transition: the heap is in no list of parked ones, and its thread is not in this process. No lock_self(). */
enum { TRANSITION_GONE = 1 };

enum heap_state {
  HEAP_ACTIVE,
  HEAP_PARKED,
  HEAP_SAMPLES, /* no thread's, samples.h */
  HEAP_NAMED,   /* no thread's, named.h */
  HEAP_LOST     /* of a fork's parent: its lock was another's */
};

/* How many samples a thread takes (sample/sample.c). */
struct sample_pace {
  uint64_t window_ms; /* os_clock_ms() when the window began */
  uint32_t in_window; /* samples since then, of those as far apart as now */
  uint32_t doublings; /* of the rate */
};

struct heap {
  /* The heap's thread only; any thread that holds `lock` while the heap is parked. */
  struct bin bins[CLASS_COUNT];
  struct heap *home; /* whose slabs the bins are filled from: its own, or another's (homes.h) */
  struct outgoing outgoing[OUTGOING_SLOTS];
  uint32_t next_waiting;   /* slot of `outgoing`, modulo their number, to be looked at next */
  struct span_cache spans; /* freed Large blocks */
  size_t bin_budget_used;  /* bytes that all bins' capacities add up to */
  uint8_t overflows[CLASS_COUNT]; /* of the bin since it was last empty, saturating */
  uint8_t refills[CLASS_COUNT];   /* in a shared home, saturating (refill.c) */
  uint8_t fallbacks; /* blocks of larger classes that may be taken before a new page (refill.c) */
  uint8_t own_fallbacks[CLASS_COUNT]; /* fallbacks in a row, of classes that have their own */
  uint64_t fallbacks_since;           /* milliseconds of os_clock_ms */
  size_t freed_in_a_row; /* bytes that bins returned to slabs since a bin was last empty */
  uint8_t deferred;      /* what its thread is to ask of the purger (purger.h) */
  const struct malloc_thread *thread; /* its thread's, by which a tool finds out which one it is */
  uint32_t uses;                      /* threads that had it so far */
  struct quarantine *quarantine;      /* hardened: freed blocks that wait; NULL: none did so far */
  struct sample_pace pace;            /* the next thread that has the heap goes on with it */

  /* The heap's thread, and the purger, which empties the slots of a thread that sleeps (slots.h). */
  atomic_bool in_slots;      /* the thread is at one of them */
  atomic_bool slots_claimed; /* the purger is about to empty them */

  /* Under `lock`. Its thread takes it on slow paths only. Others only try it while they hold one of their
   * own; who holds none (release_purge) may wait for it. */
  struct class_slabs classes[CLASS_COUNT];
  struct batch *drained[CLASS_COUNT];
  size_t decommitted_bytes; /* of the slabs: slab_decommitted_bytes */
  size_t
      recommitted_bytes; /* of these, taken back into use since the purger last gave something back */
  size_t peak_committed; /* most that the slabs owned, less decommitted_bytes, ever were */
  size_t
      growth_purge_from; /* peak_committed from which it gives back as it grows (release/growth.h) */
  bool growth_purged;    /* what is in holes was given back by that, not because it rested */
  uint8_t growth_purge_class; /* where it goes on; its thread's, under purger_scan_lock */
  uint8_t turn; /* class of the inbox that goes back into slabs next (slabs_put_waiting) */
  bool sorts[CLASS_COUNT]; /* refills put batches of the class back into slabs (refill.c) */
  size_t free_bytes;       /* in the slabs' free lists */
  _Atomic uint32_t
      free_blocks[CLASS_COUNT]; /* the same by class; relaxed: hints for front/move.c */
  uint64_t sum_at_fork;         /* of what its thread uses without a lock (absent.h) */
  size_t free_low; /* least free_bytes since the purger last scanned, about (purger_is_due) */
  uint8_t idle_scans
      [CLASS_COUNT]; /* scans of the purger since the last refill or overflow, saturating */
  _Atomic size_t
      slab_bytes; /* bytes of the slabs owned; relaxed: read without the lock as a hint */

  /* Once. */
  struct heap *next;         /* list of all heaps */
  struct counters *counters; /* NULL: nothing is counted. Written by the heap's thread alone */

  /* Under heap_list_lock. */
  struct heap *next_parked;

  /* Under the lock of the class's reclaim list (reclaim.h). */
  struct heap *next_reclaim[CLASS_COUNT];

  /* Any thread. */
  _Alignas(64) struct lock lock;
  _Atomic uint8_t state;  /* enum heap_state; written under `lock` */
  _Atomic uint8_t node;   /* where its thread last asked for memory (node.h); relaxed: a hint */
  _Atomic uint32_t users; /* threads whose home it is; relaxed: a hint for who chooses one */
  /* The thread (lock_self) that has the heap, and whose thread_heap it is not: it takes it just now, has borrowed it, or parks it. A handler
   * that interrupts this may fork, and the child goes on with it. Relaxed: that thread's own. */
  _Atomic uint32_t in_transition;
  atomic_bool transition_counts; /* among the active ones */
  /* In a fork's child: what its thread left was not looked at so far (absent.h). Written under `lock`; relaxed: a hint without it. */
  atomic_bool in_doubt;
  _Atomic size_t parked_bins; /* relaxed: a hint; about the bytes in its bins while it is parked */
  _Atomic int64_t
      inbox_bytes; /* relaxed: a hint; about the bytes in all inboxes and drained lists */
  _Atomic(struct batch *) inbox[CLASS_COUNT]; /* push release, take acquire */
  atomic_bool
      in_reclaim_list[CLASS_COUNT]; /* in the class's reclaim list, or about to be; acq_rel */
};

/* The calling thread's heap; `heap_none`, whose bins are empty and stay so, before it has one, after it has
 * ended, and while its heap counts (heap_of_thread finds it then): the fast paths need no test for that. */
extern _Thread_local struct heap *thread_heap HAK_HIDDEN __attribute__((tls_model("initial-exec")));
extern struct heap heap_none HAK_HIDDEN;
/* What malloc's fast path looks at. In one structure, so that one address leads to both. */
struct malloc_thread {
  struct heap *heap;   /* thread_heap, or heap_none while its calls are counted (heap_call_soon) */
  int64_t sample_left; /* bytes to the next sample; below 0: it is due (sample/sample.h) */
  int64_t sample_rest; /* bytes that are to be added then, see heap_call_soon */
};
extern _Thread_local struct malloc_thread malloc_thread HAK_HIDDEN
    __attribute__((tls_model("initial-exec")));

/** Is `bin`, as the address map names it, one of `heap`'s: does the heap own the block's slab? Also false for NULL, which stands
 * for every pointer that is not a block of a slab. */
HAK_INLINE bool heap_owns_bin(const struct heap *heap, const struct bin *bin) {
  return (uintptr_t)bin - (uintptr_t)heap->bins < sizeof heap->bins;
}

/** How far from the first bin of the heap's home a bin of the map is: for a block of one of its slabs that is a place in `bins`, above
 * it for all others, NULL too. */
HAK_INLINE size_t heap_place(const struct heap *heap, const struct bin *bin) {
  _Static_assert(offsetof(struct heap, bins) == 0, "a heap's address is that of its first bin");
  /* thread_heap is never NULL. NOLINTNEXTLINE(clang-analyzer-core.NullDereference) */
  return (uintptr_t)bin - (uintptr_t)heap->home;
}

/** May a block of such a place go into a bin of the heap's, which is heap_bin_at? */
HAK_INLINE bool heap_keeps(size_t place) { return place < sizeof((struct heap *)NULL)->bins; }

HAK_INLINE struct bin *heap_bin_at(struct heap *heap, size_t place) {
  return (struct bin *)(void *)((char *)heap + place);
}

/** What the map names at such a place, and NULL where it names nothing: not by way of a pointer into the heap, of which the compiler knows
 * that it is not NULL. */
HAK_INLINE struct bin *heap_bin_of_map(const struct heap *heap, size_t place) {
  return (struct bin *)((uintptr_t)heap->home + place); // NOLINT(performance-no-int-to-ptr)
}

/** Has the heap no slabs of its own? Then its thread is a guest in another heap's. */
HAK_INLINE bool heap_is_guest(const struct heap *heap) { return heap->home != heap; }

HAK_INLINE unsigned heap_node(const struct heap *heap) {
  return atomic_load_explicit(&heap->node, memory_order_relaxed);
}

HAK_INLINE void heap_set_node(struct heap *heap, unsigned node) {
  atomic_store_explicit(&heap->node, (uint8_t)node, memory_order_relaxed);
}

/** Does the heap have no thread, and nothing that anybody could use, as far as is known? Scans pass such heaps by without their lock.
 * relaxed: a hint; what is missed is found by the next scan. */
HAK_INLINE bool heap_is_bare(const struct heap *heap) {
  return atomic_load_explicit(&heap->state, memory_order_relaxed) == HEAP_PARKED &&
         atomic_load_explicit(&heap->parked_bins, memory_order_relaxed) == 0 &&
         atomic_load_explicit(&heap->inbox_bytes, memory_order_relaxed) <= 0 &&
         atomic_load_explicit(&heap->slab_bytes, memory_order_relaxed) == 0 &&
         !atomic_load_explicit(&heap->in_doubt, memory_order_relaxed);
}

/** The heap of a bin of this class. */
HAK_INLINE struct heap *heap_of_bin(struct bin *bin, unsigned size_class) {
  return (struct heap *)(void *)((char *)(bin - size_class) - offsetof(struct heap, bins));
}

/** Adds to a figure of the heap, if it counts. Its thread only, or under `lock` while it is parked. */
HAK_INLINE void heap_count(struct heap *heap, unsigned counted_class, enum counter which,
                           uint64_t n) {
  if (!HAK_FAST && HAK_UNLIKELY(heap->counters != NULL))
    counters_add(heap->counters, counted_class, which, n);
}

/* --- heap.c: birth and death ---------------------------------------------------------------------- */

/** The rest of heap_of_thread, where thread_heap is heap_none. */
struct heap *heap_made_for_thread(void);
/** The calling thread's heap, made now if it has none. NULL: no memory, or the thread is past its end
 * (use heap_borrow then), or calls go to libc. */
HAK_INLINE struct heap *heap_of_thread(void) {
  struct heap *heap = thread_heap;
  return HAK_LIKELY(heap != &heap_none) ? heap : heap_made_for_thread();
}

/** The calling thread leaves malloc's fast path once, after at most so many bytes that it asks for: by its count of bytes to the
 * next sample. The fast variant has no such count: its slow path is forced, and each call of malloc's slow half counts as a byte. */
void heap_call_soon(int64_t bytes);
/** In the fast variant it does so no more, until heap_call_soon. In others there is nothing to undo. */
void heap_call_never(void);

/** For the helper thread: it gets no heap, which nobody would park. */
void heap_never_in_this_thread(void);

/** The calling thread's heap if it has one, else NULL. */
struct heap *heap_if_any(void);

/** A heap for one operation of a thread that is past its end; NULL: no memory. */
struct heap *heap_borrow(void);
void heap_return(struct heap *heap);

/** Reads the options and makes what heaps need, if nobody did; false: calls go to libc. */
bool heap_start(void);

/** True when HAKMEM_FORCE_LIBC_ALLOC is set. */
bool heap_calls_libc(void);

/* What is told of heaps that are no thread's, and of those without one. */
extern struct lock heap_list_lock HAK_HIDDEN;

/** Enters a heap, whose lock is initialised, into the list of all. */
void heap_list(struct heap *heap);

/** First of the list of all heaps; follow `next`. The list only grows, at its front. */
struct heap *heap_first(void);
extern _Atomic(struct heap *) heap_all HAK_HIDDEN;
/* Were the options read? Release. */
extern atomic_bool heap_started HAK_HIDDEN;

/** Heaps in use by threads, and those of ended threads. */
void heap_counts(uint64_t *active, uint64_t *parked);
uint64_t heap_active(void);

/** Its part of the handlers around fork (fork.c). */
void heap_each_lock(lock_visit *visit, void *argument);
/** The same without the locks of heaps in which nothing is. */
void heap_each_lock_in_use(lock_visit *visit, void *argument);
void heap_fork_prepare(void);
void heap_fork_child(void);
/** In the child: these are all heaps, and so many are active. `mine_is_whole`: this thread's is among them. */
void heap_go_on_in_child(struct heap *first, uint64_t active_now, bool mine_is_whole);

#endif
