/* heap.h - birth and death of what threads allocate from: a thread cache (cache.h) over an arena (arena.h).
 *
 * Both lie in one allocation, a heap. The arena of a thread that has slabs of its own is its heap's; that of a guest is another's, and
 * its heap's own stays empty (homes.h).
 *   parked  the heap of an ended thread, with all it holds, waiting for the next thread.
 */
#ifndef HAK_HEAP_H
#define HAK_HEAP_H

#include "heap/cache.h"

/* Three pages. All that a guest's heap is used for lies in the last one: the end of its arena and its cache. Of 10,000 threads that lived at
 * once each leaves that page (docs/decisions/0040). */
#define HEAP_PAGE 4096
struct heap {
  _Alignas(HEAP_PAGE) char unused[2 * HEAP_PAGE - offsetof(struct arena, lock)];
  struct arena arena;
  struct thread_cache cache;
};
_Static_assert(sizeof(struct heap) == 3 * HEAP_PAGE, "the cache ends with the third page");

/* From an arena to the cache in one heap with it. */
#define HEAP_DISTANCE (offsetof(struct heap, cache) - offsetof(struct heap, arena))

/** The cache in one heap with an arena. */
HAK_INLINE struct thread_cache *cache_beside(struct arena *arena) {
  return (struct thread_cache *)(void *)((char *)arena + HEAP_DISTANCE);
}

/** The arena in one heap with a cache. */
HAK_INLINE struct arena *arena_beside(struct thread_cache *cache) {
  return (struct arena *)(void *)((char *)cache - HEAP_DISTANCE);
}

/** Has the heap no slabs of its own? Then its thread is a guest in another's arena. */
HAK_INLINE bool cache_is_guest(const struct thread_cache *cache) {
  return (const char *)cache->arena != (const char *)cache - HEAP_DISTANCE;
}

/** The rest of cache_of_thread, where thread_cache is cache_none. */
struct thread_cache *cache_made_for_thread(void);
/** The calling thread's cache, made now if it has none. NULL: no memory, or the thread is past its end
 * (use cache_borrow then), or calls go to libc. */
HAK_INLINE struct thread_cache *cache_of_thread(void) {
  struct thread_cache *cache = thread_cache;
  return HAK_LIKELY(cache != &cache_none) ? cache : cache_made_for_thread();
}

/** The calling thread leaves malloc's fast path once, after at most so many bytes that it asks for: by its count of bytes to the
 * next sample. The fast variant has no such count: its slow path is forced, and each call of malloc's slow half counts as a byte. */
void heap_call_soon(int64_t bytes);
/** Counts bytes that a slow half of free has seen towards that call, and none of them towards the next sample; true: it is due now. */
bool heap_counts_to_call(int64_t bytes);
/** In the fast variant it does so no more, until heap_call_soon. In others there is nothing to undo. */
void heap_call_never(void);

/** For the helper thread: it gets no heap, which nobody would park. */
void heap_never_in_this_thread(void);

/** The calling thread's cache if it has one, else NULL. */
struct thread_cache *cache_if_any(void);

/** A cache for one operation of a thread that is past its end; NULL: no memory. */
struct thread_cache *cache_borrow(void);
void cache_return(struct thread_cache *cache);
/** Is the calling thread telling a library of pages that go? It may hold locks then, those of its home as well. */
bool heap_is_beside_program(void);

/** Reads the options and makes what heaps need, if nobody did; false: calls go to libc. */
bool heap_start(void);

/** True when HAKMEM_FORCE_LIBC_ALLOC is set. */
bool heap_calls_libc(void);

/* What is told of heaps that are no thread's, and of those without one. */
extern struct lock heap_list_lock HAK_HIDDEN;

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
void heap_go_on_in_child(struct arena *first, uint64_t active_now, bool mine_is_whole);

#endif
