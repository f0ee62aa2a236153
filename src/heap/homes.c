/* homes.c - see homes.h. */
#include "heap/homes.h"

#include "heap/parked.h"
#include "policy/container.h"
#include "superslab/node.h"

/* With more processors than the most, threads share homes before there are as many of them. */
enum { HOMES_LEAST = 8, HOMES_MOST = 256 };

/* Written under heap_list_lock; the number by release, after the place, and read by acquire. They only grow. */
static _Atomic(struct arena *) homes[NODES][HOMES_MOST];
static _Atomic unsigned counts[NODES];
static unsigned most;                         /* under heap_list_lock; 0: not asked so far */
static _Atomic unsigned count HAK_START_DATA; /* of all nodes; relaxed: a hint */

unsigned homes_count(void) {
  unsigned homes_now = atomic_load_explicit(&count, memory_order_relaxed);
  return homes_now > 0 ? homes_now : 1;
}

/* Of a container with a quota of two processors on a machine of 64 two threads run at a time, but for moments. */
static unsigned processors(void) {
  static struct container container; /* under heap_list_lock; no page of it is used before */
  unsigned of_machine = os_processors();
  if (of_machine <= HOMES_LEAST) return HOMES_LEAST;
  unsigned quota = container_processors(&container);
  return quota != 0 && quota < of_machine ? quota : of_machine;
}

/* The system is asked once, by the first thread beyond the least. */
static unsigned most_homes(void) {
  if (most == 0) {
    most = processors();
    if (most < HOMES_LEAST) most = HOMES_LEAST;
    if (most > HOMES_MOST) most = HOMES_MOST;
  }
  return most;
}

unsigned homes_on(unsigned node) {
  return atomic_load_explicit(&counts[node], memory_order_acquire);
}

bool homes_may_be_more(unsigned node) {
  return homes_on(node) < HOMES_LEAST || homes_on(node) < most_homes();
}

struct arena *homes_at(unsigned node, unsigned place) {
  return atomic_load_explicit(&homes[node][place], memory_order_relaxed);
}

void homes_enter(struct arena *arena) {
  unsigned node = arena_node(arena), place = homes_on(node);
  cache_beside(arena)->arena = arena;
  if (place == HOMES_MOST) return;
  atomic_store_explicit(&homes[node][place], arena, memory_order_relaxed);
  atomic_store_explicit(&counts[node], place + 1, memory_order_release);
  unsigned before = atomic_load_explicit(&count, memory_order_relaxed);
  atomic_store_explicit(&count, before + 1, memory_order_relaxed);
}

/* The thread of a home may have moved to another node: then the home is one's choice after all others. */
#define FAR (UINT32_C(1) << 31)

struct arena *homes_least_used(unsigned node) {
  struct arena *least = NULL;
  uint32_t least_users = UINT32_MAX;
  unsigned count_here = homes_on(node);
  for (unsigned place = 0; place < count_here; place++) {
    struct arena *arena = homes_at(node, place);
    uint32_t users = atomic_load_explicit(&arena->users, memory_order_relaxed);
    if (arena_node(arena) != node) users |= FAR;
    if (users >= least_users || lock_holder(&arena->lock) == LOCK_MINE) continue;
    least = arena;
    least_users = users;
  }
  return least;
}

void homes_use(struct arena *arena) {
  atomic_fetch_add_explicit(&arena->users, 1, memory_order_relaxed);
}

void homes_leave(struct arena *arena) {
  atomic_fetch_sub_explicit(&arena->users, 1, memory_order_relaxed);
}

/* --- fork ------------------------------------------------------------------------------------------------- */

static bool is_threads(const struct arena *arena) {
  uint8_t state = atomic_load_explicit(&arena->state, memory_order_relaxed);
  return state == ARENA_ACTIVE || state == ARENA_PARKED;
}

static bool is_lost(const struct arena *arena) {
  return atomic_load_explicit(&arena->state, memory_order_relaxed) == ARENA_LOST;
}

/* A guest whose home was lost goes on with slabs of its own. One that has no thread gets another home with the next. */
static bool becomes_home(struct arena *arena) {
  const struct thread_cache *cache = cache_beside(arena);
  if (!cache_is_guest(cache)) return true;
  return is_lost(cache->arena) &&
         (atomic_load_explicit(&arena->state, memory_order_relaxed) == ARENA_ACTIVE ||
          parked_is_moved_here(arena));
}

/* Is it this thread's, or one that it has taken besides? */
static bool is_in_use(struct arena *arena) {
  return cache_beside(arena) == cache_if_any() ||
         (parked_is_moved_here(arena) &&
          atomic_load_explicit(&arena->transition_counts, memory_order_relaxed));
}

/* Nothing is written to a guest that stays one. */
void homes_fork_child(struct arena *first) {
  for (unsigned node = 0; node < node_end(); node++)
    if (homes_on(node) > 0) atomic_store_explicit(&counts[node], 0, memory_order_relaxed);
  atomic_store_explicit(&count, 0, memory_order_relaxed);
  for (struct arena *arena = first; arena != NULL; arena = arena->next) {
    if (!is_threads(arena) || !becomes_home(arena)) continue;
    atomic_store_explicit(&arena->users, 0, memory_order_relaxed);
    homes_enter(arena);
  }
  for (struct arena *arena = first; arena != NULL; arena = arena->next)
    if (is_in_use(arena)) homes_use(cache_beside(arena)->arena);
}
