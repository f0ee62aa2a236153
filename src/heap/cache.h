/* cache.h - the thread cache: what a thread allocates from without asking anybody.
 *
 * Glossary
 *   bin        last-in-first-out list of free blocks of one class, used by the cache's thread alone, without a lock. The
 *              block that was freed last is the first to be handed out. Its blocks come from the slabs of the cache's arena.
 *   outgoing   blocks freed here that belong to another arena, gathered until a batch is worth sending.
 */
#ifndef HAK_CACHE_H
#define HAK_CACHE_H

#include "heap/arena.h"
#include "large/large.h"

struct bin {
  void *head;
  int32_t room;      /* blocks it may still take; free() counts down and acts below 0 */
  uint32_t capacity; /* blocks it may hold; grows with use, see bin_overflow */
};
_Static_assert(sizeof(struct bin) == sizeof(struct inbox), "see cache_place");

enum { OUTGOING_SLOTS = 64 };

/* 32 bytes, so that a slot lies in one line, and its address takes three instructions fewer than that of one of 24. */
struct outgoing {
  _Alignas(32) struct inbox *owner; /* that the blocks go to; NULL: never used */
  void *head;                       /* NULL: nothing gathered */
  uint16_t count, limit;
  uint8_t size_class;
  bool waited; /* what is in it was there when it was last looked at (remote.c) */
};

/* What a bin's use decides. */
struct bin_use {
  uint8_t overflows : 4; /* of the bin since it was last empty, saturating */
  uint8_t refills : 4;   /* in a shared arena, saturating (refill.c) */
  uint8_t own_fallbacks; /* fallbacks in a row, of classes that have their own (fallback.c) */
};

struct quarantine; /* quarantine.c */

/* How many samples a thread takes (sample/sample.c). */
struct sample_pace {
  uint64_t window_ms; /* os_clock_ms() when the window began */
  uint32_t in_window; /* samples since then, of those as far apart as now */
  uint32_t doublings; /* of the rate */
};

/* Its thread only; any thread that holds the lock of the heap while it is parked. */
struct thread_cache {
  struct bin bins[CLASS_COUNT];
  struct arena *arena;   /* whose slabs fill the bins: its heap's own, or another's (homes.h) */
  uint32_t next_waiting; /* slot of `outgoing`, modulo their number, to be looked at next */
  uint32_t uses;         /* threads that had the cache so far */
  struct outgoing outgoing[OUTGOING_SLOTS];
  struct span_cache spans; /* freed Large blocks */
  size_t bin_budget_used;  /* bytes that all bins' capacities add up to */
  size_t refilled;         /* bytes that refills have brought */
  struct bin_use use[CLASS_COUNT];
  uint8_t fallbacks; /* blocks of larger classes that may be taken before a new page (fallback.c) */
  uint8_t deferred;  /* what its thread is to ask of the purger (purger.h) */
  /* Its thread, and the purger, which empties the slots of a thread that sleeps (slots.h). */
  atomic_bool in_slots;      /* the thread is at one of them */
  atomic_bool slots_claimed; /* the purger is about to empty them */
  uint64_t fallbacks_since;  /* milliseconds of os_clock_ms */
  size_t freed_in_a_row;     /* bytes that bins returned to slabs since a bin was last empty */
  const struct malloc_thread *thread; /* its thread's, by which a tool finds out which one it is */
  struct sample_pace pace;            /* the next thread that has it goes on with it */
  struct quarantine *quarantine;      /* hardened: freed blocks that wait; NULL: none did so far */
  struct counters *counters; /* NULL: nothing is counted. Written by the cache's thread alone */
#if HAK_HARDENED
  void *
      none; /* head of the bin for 0 bytes, NULL: such blocks are the slow path's (front/empty.h) */
#endif
};
#if HAK_HARDENED
_Static_assert(offsetof(struct thread_cache, none) == PLACE_OF_0, "where malloc(0) looks");
#endif

/* The calling thread's cache; `cache_none`, whose bins are empty and stay so, before it has one, after it has
 * ended, and while its cache counts (cache_of_thread finds it then): the fast paths need no test for that. */
extern _Thread_local struct thread_cache *thread_cache HAK_HIDDEN
    __attribute__((tls_model("initial-exec")));
extern struct thread_cache cache_none HAK_HIDDEN;
/* What malloc's fast path looks at. In one structure, so that one address leads to both. */
struct malloc_thread {
  struct thread_cache *cache; /* cache_none while its calls are counted (heap_call_soon), and in the
                                 hardened variant's modes but light */
  int64_t sample_left;        /* bytes to the next sample; below 0: it is due (sample/sample.h) */
  int64_t sample_rest;        /* bytes that are to be added then, see heap_call_soon */
};
extern _Thread_local struct malloc_thread malloc_thread HAK_HIDDEN
    __attribute__((tls_model("initial-exec")));

/** How far from the beginning of the cache's arena an inbox of the map is: for a block of one of its slabs that is a place in `bins`, above
 * it for all others, NULL too. */
HAK_INLINE size_t cache_place(const struct thread_cache *cache, const struct inbox *inbox) {
  _Static_assert(offsetof(struct thread_cache, bins) == 0, "a cache begins with its bins");
  /* thread_cache is never NULL. NOLINTNEXTLINE(clang-analyzer-core.NullDereference) */
  return (uintptr_t)inbox - (uintptr_t)cache->arena;
}

/** May a block of such a place go into a bin of the cache, which is cache_bin_at? */
HAK_INLINE bool cache_keeps(size_t place) {
  return place < sizeof((struct thread_cache *)NULL)->bins;
}

HAK_INLINE struct bin *cache_bin_at(struct thread_cache *cache, size_t place) {
  return (struct bin *)(void *)((char *)cache + place);
}

/** What the map names at such a place, and NULL where it names nothing: not by way of a pointer into the arena, of which the compiler knows
 * that it is not NULL. */
HAK_INLINE struct inbox *cache_inbox_at(const struct thread_cache *cache, size_t place) {
  return (struct inbox *)((uintptr_t)cache->arena + place); // NOLINT(performance-no-int-to-ptr)
}

/** Adds to a figure of the cache, if it counts. Its thread only, or under the lock while it is parked. */
HAK_INLINE void cache_count(struct thread_cache *cache, unsigned counted_class, enum counter which,
                            uint64_t n) {
  if (!HAK_FAST && HAK_UNLIKELY(cache->counters != NULL))
    counters_add(cache->counters, counted_class, which, n);
}

#endif
