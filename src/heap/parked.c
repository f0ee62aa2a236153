/* parked.c - see parked.h.
 *
 * A handler that comes between two steps here may fork. In its child a count may be wrong by one heap: it is not taken for exact, and
 * does not go below 0.
 */
#include "heap/parked.h"

static struct arena *of_first_node HAK_START_DATA;
static struct arena *of_others[NODES - 1];
static struct arena *guests;
/* Written under heap_list_lock, read as a hint; relaxed, as is the other. */
static _Atomic uint64_t count HAK_START_DATA;
static _Atomic size_t bin_bytes;

static struct arena **list_of(unsigned node) {
  return node == 0 ? &of_first_node : &of_others[node - 1];
}

uint64_t parked_heaps(void) { return atomic_load_explicit(&count, memory_order_relaxed); }

void parked_put(struct arena *arena) {
  struct arena **list = cache_is_guest(cache_beside(arena)) ? &guests : list_of(arena_node(arena));
  arena->next_parked = *list;
  *list = arena;
  atomic_store_explicit(&count, parked_heaps() + 1, memory_order_relaxed);
}

/* A thread that was interrupted in a heap it holds the lock of may need another. */
static bool may_take(const struct arena *arena, bool alone) {
  if (lock_holder(&arena->lock) == LOCK_MINE) return false;
  return !alone || atomic_load_explicit(&arena->users, memory_order_relaxed) == 0;
}

static struct arena *take(struct arena **list, bool alone) {
  while (*list != NULL && !may_take(*list, alone)) list = &(*list)->next_parked;
  struct arena *arena = *list;
  if (arena == NULL) return NULL;
  parked_begin_to_move(arena, false);
  *list = arena->next_parked;
  arena->next_parked = NULL;
  if (parked_heaps() > 0) atomic_store_explicit(&count, parked_heaps() - 1, memory_order_relaxed);
  return arena;
}

struct arena *parked_take(unsigned node, bool alone) {
  return take(list_of(node), alone);
}

struct arena *parked_take_guest(void) {
  return take(&guests, false);
}

static void forget_all(void) {
  guests = NULL;
  for (unsigned node = 0; node < node_end(); node++) *list_of(node) = NULL;
  atomic_store_explicit(&count, 0, memory_order_relaxed);
}

/* A parked heap that is not in transition is in a list: both change under heap_list_lock. */
void parked_fork_child(struct arena *first, bool whole) {
  if (!whole) forget_all();
  for (struct arena *arena = first; arena != NULL; arena = arena->next) {
    if (atomic_load_explicit(&arena->state, memory_order_relaxed) != ARENA_PARKED) continue;
    bool moves = atomic_load_explicit(&arena->in_transition, memory_order_relaxed) != 0;
    if ((whole && !moves) || parked_is_moved_here(arena)) continue;
    if (moves) parked_end_to_move(arena);
    parked_put(arena);
  }
}

void parked_count_bins(struct arena *arena, size_t bytes) {
  size_t before = atomic_exchange_explicit(&arena->parked_bins, bytes, memory_order_relaxed);
  if (bytes != before) atomic_fetch_add_explicit(&bin_bytes, bytes - before, memory_order_relaxed);
}

size_t parked_bin_bytes(void) {
  size_t bytes = atomic_load_explicit(&bin_bytes, memory_order_relaxed);
  return bytes <= PTRDIFF_MAX ? bytes : 0;
}

void parked_begin_to_move(struct arena *arena, bool counts) {
  atomic_store_explicit(&arena->transition_counts, counts, memory_order_relaxed);
  atomic_store_explicit(&arena->in_transition, lock_self(), memory_order_relaxed);
}

void parked_end_to_move(struct arena *arena) {
  atomic_store_explicit(&arena->in_transition, 0, memory_order_relaxed);
}

bool parked_is_moved_here(const struct arena *arena) {
  return atomic_load_explicit(&arena->in_transition, memory_order_relaxed) == lock_self();
}
