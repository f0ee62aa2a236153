/* heap.c - birth, parking and reuse of thread heaps; what fork has to do with them.
 *
 * A thread gets its heap at its first slow path: the one parked last on its node, else a new one, or one of
 * another node if there are plenty. When it ends, a destructor of a pthread key sends what it gathered for
 * others and parks the heap as it is, bins and all: the next thread finds it warm.
 */
#include "heap/heap.h"

#include <pthread.h>

#include "heap/absent.h"
#include "heap/adopt.h"
#include "heap/bins.h"
#include "heap/fork.h"
#include "heap/homes.h"
#include "heap/named.h"
#include "heap/parked.h"
#include "heap/purger.h"
#include "heap/quarantine.h"
#include "heap/remote.h"
#include "heap/samples.h"
#include "heap/start.h"
#include "observe/report.h"
#include "policy/options.h"
#include "superslab/unit.h"

/* Nothing is in it: the address map never names it. */
static struct arena arena_none;
struct thread_cache cache_none = {.arena = &arena_none};
_Thread_local struct thread_cache *thread_cache = &cache_none;
_Thread_local struct malloc_thread malloc_thread = {&cache_none, 0, 0};

/* The thread's heap if it counts. thread_cache is left at cache_none then: the fast paths find nothing there, so
 * that every malloc and free comes to the slow ones, where it is counted. */
static _Thread_local struct thread_cache *counting_cache;

/* The first round of destructors of keys has begun. */
static _Thread_local bool thread_ends;

/* Past its end: the key's destructor ran. The heap is not to be made again, nobody would park it. */
static _Thread_local bool thread_ended;

static struct heap first_heap;
static struct counters first_counters; /* of first_heap */
static bool first_heap_given HAK_START_DATA;
_Atomic(struct arena *) arena_all HAK_START_DATA;

struct lock heap_list_lock HAK_START_DATA; /* parked.c, first_heap_given */
static pthread_key_t key HAK_START_DATA;
static bool key_made HAK_START_DATA;
static _Atomic uint64_t active HAK_START_DATA;

struct arena *arena_first(void) {
  /* acquire: a heap that is seen is seen whole */
  return atomic_load_explicit(&arena_all, memory_order_acquire);
}

/* seq_cst: see purger_wake. */
uint64_t heap_active(void) { return atomic_load_explicit(&active, memory_order_seq_cst); }

void heap_counts(uint64_t *active_out, uint64_t *parked_out) {
  *active_out = heap_active();
  *parked_out = parked_heaps();
}

/* --- parking ---------------------------------------------------------------------------------------------- */

static void set_state(struct arena *arena, enum arena_state state) {
  /* The lock: whoever adopts from the arena at this moment finishes first, and the stores of the thread
   * that gives the heap away are seen by the one that takes it. */
  lock_acquire(&arena->lock);
  bool doubtful = atomic_load_explicit(&arena->in_doubt, memory_order_relaxed);
  absent_prove(arena);
  atomic_store_explicit(&arena->state, (uint8_t)state, memory_order_relaxed);
  lock_release(&arena->lock);
  if (HAK_UNLIKELY(doubtful)) superslab_settle();
}

/* A thread of a pool that has ended sends and frees nothing any more, and perhaps nobody else does. Nor may anybody call malloc, where
 * the helper is started else: no libc holds a lock when it calls a key's destructor. */
static void call_for_parked_bins(bool wanted) {
  if (heap_active() == 0) return; /* the program ends */
  if (!wanted && parked_bin_bytes() < RELEASE_MOST && !purger_is_unheard()) return;
  void (*call)(void) = atomic_load_explicit(&purger_when_parked, memory_order_relaxed);
  if (call != NULL) call();
}

/* The caller has the heap in transition (parked_begin_to_move). True: so much waits now that the purger is wanted. */
static bool park(struct thread_cache *cache) {
  struct arena *arena = arena_beside(cache);
  quarantine_flush(cache);
  remote_flush(cache);
  span_cache_flush(&cache->spans);
  if (cache_is_guest(cache)) bins_send_home(cache);
  bool wanted = (cache->deferred & DEFERRED_PURGE) != 0;
  parked_count_bins(arena, bins_bytes(cache->bins));
  set_state(arena, ARENA_PARKED);
  homes_leave(cache->arena);
  lock_acquire(&heap_list_lock);
  parked_put(arena);
  parked_end_to_move(arena);
  lock_release(&heap_list_lock);
  /* A program ends with its last thread, which must not be the helper, waiting; and one that has its main thread alone again has no
   * thread of ours. */
  uint64_t before = atomic_fetch_sub_explicit(&active, 1, memory_order_seq_cst);
  if (before <= 2) purger_wake();
  if (before == 1) purger_see_helper_end();
  return wanted;
}

void heap_never_in_this_thread(void) { thread_ended = true; }

/* In the hardened variant these are for light alone (front/fast.h). */
static struct thread_cache *of_fast_paths(struct thread_cache *cache) {
  bool any = !HAK_HARDENED || option_guard() == GUARD_LIGHT;
  return any ? cache : &cache_none;
}

static void use_cache(struct thread_cache *cache) {
  cache->thread = &malloc_thread;
  cache->uses++;
  /* relaxed: nobody is at the slots of a cache that has no thread; the last one may have been cancelled there, or another process's */
  atomic_store_explicit(&cache->in_slots, false, memory_order_relaxed);
  if (cache->counters != NULL) {
    counting_cache = cache;
  } else {
    thread_cache = cache;
    malloc_thread.cache = of_fast_paths(cache);
  }
  parked_end_to_move(arena_beside(cache));
}

/* With 10 ns each a thousandth of the time of a busy program, in a tick of 4 ms. Beyond that it is left to slow paths that it takes anyway. */
enum { SLOW_PATH_CALLS = 512, FAST_PATH_CALLS = 16 };

static void call_soon_by_slow_path(int64_t calls) {
  bool is_forced = calls < SLOW_PATH_CALLS;
  malloc_thread.cache = is_forced ? &cache_none : thread_cache;
  malloc_thread.sample_left = is_forced ? calls : FAST_PATH_CALLS;
}

void heap_call_never(void) {
  if (!HAK_FAST) return;
  malloc_thread.cache = thread_cache;
  malloc_thread.sample_left = INT64_MAX;
}

void heap_call_soon(int64_t bytes) {
  if (HAK_FAST) {
    bool is_later = malloc_thread.sample_left < 0 || malloc_thread.sample_left > bytes;
    if (is_later) call_soon_by_slow_path(bytes);
    return;
  }
  if (malloc_thread.sample_left <= bytes) return;
  malloc_thread.sample_rest += malloc_thread.sample_left - bytes;
  malloc_thread.sample_left = bytes;
}

bool heap_counts_to_call(int64_t bytes) {
  int64_t left = malloc_thread.sample_left - (HAK_FAST ? 1 : bytes);
  if (HAK_FAST) {
    malloc_thread.sample_left = left < 0 ? 0 : left;
  } else if (left >= 0) {
    heap_call_soon(left);
  } else { /* the next call of malloc may be as far away as the next sample */
    malloc_thread.sample_left += malloc_thread.sample_rest;
    malloc_thread.sample_rest = 0;
  }
  return left < 0;
}

static void leave_cache(void) {
  thread_cache = malloc_thread.cache = &cache_none;
  counting_cache = NULL;
}

/* Libraries that are told of pages that go just now, one within another. */
static _Thread_local unsigned calls_from_inside;

/* While a library is told of pages that go, which may allocate, the thread may hold the lock of its home, and slabs and cached spans of the
 * heap may be in the purger's hands. So it borrows a heap for each call, as at its end; one with slabs of its own that has no guests, for it would
 * wait for a guest's lock, or its home's, while it holds another. Where it forks meanwhile it goes on with its heap
 * in the child, which `in_transition` says. */
static void beside_program(struct os_beside *beside, bool begins) {
  struct thread_cache *mine = cache_if_any();
  if (begins) {
    *beside = (struct os_beside){mine, malloc_thread.cache, thread_ended, true};
    if (mine != NULL) parked_begin_to_move(arena_beside(mine), true);
    leave_cache();
    thread_ended = true;
    calls_from_inside++;
    return;
  }
  calls_from_inside--;
  mine = beside->heap;
  thread_ended = beside->ended;
  if (mine == NULL) return;
  if (mine->counters != NULL) counting_cache = mine;
  else thread_cache = mine;
  malloc_thread.cache = beside->heap_of_malloc;
  parked_end_to_move(arena_beside(mine));
}

/* The key was made before the program's, so this runs before their destructors. These still have the heap: it is parked when
 * the key comes again, in the second round of destructors (glibc and musl make four, as long as values are set). Not later,
 * for a heap that was first made by a destructor, in the second round, would never be parked then: which round it is,
 * nobody tells. (One that is first made in the last round never is.) Whatever is freed after that borrows a heap. */
static void at_thread_end(void *cache) {
  if (!thread_ends) {
    thread_ends = true;
    if (pthread_setspecific(key, cache) == 0) return;
  }
  parked_begin_to_move(arena_beside(cache), true);
  leave_cache();
  thread_ended = true;
  bool wanted = park(cache);
  if (heap_active() == 1) adopt_put_all_back();
  call_for_parked_bins(wanted);
}

/* --- birth ------------------------------------------------------------------------------------------------- */

/* Each copy of glibc in a process (dlmopen) numbers its keys from 0, and all keep a thread's values in one table: a copy's first key has our
 * value, and its destructor frees that. So ours is the last of those for which glibc allocates nothing. */
enum { KEYS_AT_HAND = 32 };

static bool make_last_key(void) {
#if defined(__GLIBC__)
  pthread_key_t before[KEYS_AT_HAND];
  unsigned count = 0;
  bool made = pthread_key_create(&key, at_thread_end) == 0;
  while (made && key < KEYS_AT_HAND - 1 && count < KEYS_AT_HAND) {
    before[count++] = key;
    made = pthread_key_create(&key, at_thread_end) == 0;
  }
  if (!made && count > 0) key = before[--count], made = true;
  while (count > 0) (void)pthread_key_delete(before[--count]);
  return made;
#else
  return pthread_key_create(&key, at_thread_end) == 0;
#endif
}

void heap_make_key(void) {
  /* The heap's lists may hold what was reported: a handler of SIGABRT gets another heap. relaxed: a function, and no data. */
  atomic_store_explicit(&os_when_dying, leave_cache, memory_order_relaxed);
  atomic_store_explicit(&os_beside_program, beside_program, memory_order_relaxed); /* as above */
  /* Without a key (a program may have taken them all) heaps of ended threads are not reused. */
  key_made = make_last_key();
}

void heap_park_at_end(void) {
  struct thread_cache *mine = cache_if_any();
  if (mine != NULL && key_made) (void)pthread_setspecific(key, mine);
}

void arena_list(struct arena *arena) {
  struct arena *next = atomic_load_explicit(&arena_all, memory_order_relaxed);
  do arena->next = next;
  while (!atomic_compare_exchange_weak_explicit(&arena_all, &next, arena, memory_order_release,
                                                memory_order_relaxed));
}

/* A heap that counts, in one piece, so that there is never one without the other. */
struct heap_and_counters {
  struct heap heap;
  struct counters counters;
};

/* Under heap_list_lock, so that a fork finds the list of heaps as it left it. */
static struct thread_cache *new_heap(struct arena *home) {
  bool counts = option_counting();
  struct heap *heap = &first_heap;
  struct counters *counters = &first_counters;
  if (first_heap_given) {
    size_t bytes = counts ? sizeof(struct heap_and_counters) : sizeof(struct heap);
    struct heap_and_counters *both = meta_allocate(bytes, _Alignof(struct heap));
    if (both == NULL) return NULL;
    heap = &both->heap;
    counters = &both->counters;
  }
  first_heap_given = true;
  struct arena *arena = &heap->arena;
  if (counts) heap->cache.counters = arena->counters = counters;
  lock_init(&arena->lock);
  heap->cache.arena = home != NULL ? home : arena;
  purger_set_mark(arena);
  parked_begin_to_move(arena, false);
  arena_list(arena);
  return &heap->cache;
}

static struct arena *take_parked_anywhere(bool alone) {
  struct arena *arena = NULL;
  for (unsigned node = 0; node < node_end() && arena == NULL; node++)
    arena = parked_take(node, alone);
  return arena;
}

/* One without slabs, which `home` fills; NULL: it is to have some. */
static struct thread_cache *take_guest(struct arena *home, bool *reused) {
  struct arena *parked = parked_take_guest();
  struct thread_cache *cache = parked != NULL ? cache_beside(parked) : new_heap(home);
  *reused = parked != NULL;
  if (parked != NULL) cache->arena = home != NULL ? home : parked;
  if (cache != NULL && home != NULL) bins_begin(cache);
  return cache;
}

/* One of an ended thread of this node, with all it holds; else one that is to own slabs, or a guest. `alone`: it is to be used by nobody
 * else. Under heap_list_lock. */
static struct thread_cache *take_or_make(unsigned node, bool alone, bool *reused) {
  struct arena *arena = parked_take(node, alone), *home = NULL;
  *reused = arena != NULL;
  if (arena != NULL) return cache_beside(arena);
  if (!alone && !homes_may_be_more(node)) home = homes_least_used(node);
  struct thread_cache *cache = take_guest(home, reused);
  if (cache != NULL) {
    arena_set_node(arena_beside(cache), node);
    if (home == NULL) homes_enter(arena_beside(cache));
    return cache;
  }
  *reused = true;
  arena = take_parked_anywhere(alone);
  return arena != NULL ? cache_beside(arena) : NULL;
}

static struct thread_cache *take_cache(bool alone) {
  unsigned node = node_now();
  bool reused;
  lock_acquire(&heap_list_lock);
  struct thread_cache *cache = take_or_make(node, alone, &reused);
  lock_release(&heap_list_lock);
  if (cache == NULL) return NULL;
  struct arena *arena = arena_beside(cache);
  if (reused) {
    set_state(arena, ARENA_ACTIVE);
    parked_count_bins(arena, 0);
  }
  homes_use(cache->arena);
  atomic_fetch_add_explicit(&active, 1, memory_order_relaxed);
  parked_begin_to_move(arena, true); /* from now on it is counted */
  purger_forget_refusal();
  return cache;
}

struct thread_cache *cache_if_any(void) {
  return thread_cache != &cache_none ? thread_cache : counting_cache;
}

struct thread_cache *cache_made_for_thread(void) {
  struct thread_cache *cache;
  if (counting_cache != NULL) return counting_cache;
  if (thread_ended) return NULL;
  if (!heap_start()) return NULL;
  /* musl allocates when fork handlers are registered: then the thread has one by now. */
  if ((cache = cache_if_any()) != NULL) return cache;
  cache = take_cache(false);
  if (cache == NULL) return NULL;
  cache->deferred |= DEFERRED_READY; /* memory may have waited for a second thread */
  use_cache(cache);
  /* From here on this thread may allocate, and the call below may do so. */
  if (key_made && pthread_setspecific(key, cache) != 0) {
    parked_begin_to_move(arena_beside(cache), true);
    leave_cache();
    (void)park(cache);
    return NULL;
  }
  return cache;
}

struct thread_cache *cache_borrow(void) {
  return heap_start() ? take_cache(calls_from_inside > 0) : NULL;
}

void cache_return(struct thread_cache *cache) { (void)park(cache); }

bool heap_is_beside_program(void) { return calls_from_inside > 0; }

/* --- fork ------------------------------------------------------------------------------------------------------ */

void heap_go_on_in_child(struct arena *first, uint64_t active_now, bool mine_is_whole) {
  atomic_store_explicit(&arena_all, first, memory_order_relaxed);
  atomic_store_explicit(&active, active_now, memory_order_relaxed);
  homes_fork_child(first);
  if (mine_is_whole || cache_if_any() == NULL) return;
  /* The heap of this thread was taken from it while it forked: it gets another one. */
  leave_cache();
  if (key_made) (void)pthread_setspecific(key, NULL);
}
