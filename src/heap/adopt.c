/* adopt.c - see adopt.h. */
#include "heap/adopt.h"

#include "heap/bins.h"
#include "heap/homes.h"
#include "heap/parked.h"
#include "heap/purger.h"
#include "heap/remote.h"
#include "heap/slabs.h"
#include "os/probe.h"
#include "superslab/unit_os.h"

/* At most so many arenas are asked in a search, for it is done under the own arena's lock. */
enum { ADOPT_HEAPS = 16 };

static void take_slab(struct arena *arena, struct arena *from, struct slab *slab) {
  slabs_disown(from, slab);
  slab_set_inbox(slab, &arena->inboxes[slab->size_class]);
  slabs_own(arena, slab);
  if (slab_has_room(slab)) slabs_enlist(arena, slab);
}

/* Memory that was never used stays with the owner that will use it, if it has a thread. */
static bool may_take(const struct slab *slab, bool parked) {
  return parked || slab->free_list != NULL || slab_carved(slab) == slab->capacity;
}

/* A slab with room out of another arena, whose lock the caller holds as well as its own. */
static bool take_slab_with_room(struct arena *arena, struct arena *from, unsigned size_class,
                                bool parked) {
  struct arena_class *slabs = &from->classes[size_class];
  struct slab *slab = slabs->first;
  for (unsigned looked = 0; slab != NULL && looked < SLABS_A_HOLD; slab = slab->next, looked++)
    if (may_take(slab, parked)) {
      take_slab(arena, from, slab);
      return true;
    }
  if (!parked || slabs->decommitted == NULL) return false;
  take_slab(arena, from, slabs->decommitted);
  return true;
}

/* Of the first block of each batch that was taken. Its blocks come to the new owner from now on, instead of to an inbox out of which
 * somebody has to take them again. */
static void take_slabs_of_batches(struct arena *arena, struct arena *from, unsigned size_class,
                                  bool parked) {
  const struct batch *batch = arena->classes[size_class].drained;
  for (; batch != NULL; batch = batch_follow(batch, size_class)) {
    if (map_inbox(batch) != &from->inboxes[size_class]) continue; /* adopted before */
    struct slab *slab = slab_head(map_slab(batch));
    if (!slab->purging && may_take(slab, parked)) take_slab(arena, from, slab);
  }
}

/* What the arena has of the class, which others may take; the caller holds the locks of both. Batches are taken as they are: sorting them into
 * slabs waits for every link, which another processor wrote. */
static bool take_from(struct arena *arena, struct arena *from, unsigned size_class) {
  /* Read under the lock: only now is a parked arena sure to stay parked. */
  bool parked = atomic_load_explicit(&from->state, memory_order_relaxed) == ARENA_PARKED;
  if (!remote_steal(arena, from, size_class))
    return take_slab_with_room(arena, from, size_class, parked);
  take_slabs_of_batches(arena, from, size_class, parked);
  return true;
}

/* Does it sleep, and may it have memory of the class? A hint: relaxed. */
static bool is_worth_asking(const struct arena *from, unsigned size_class) {
  unsigned state = atomic_load_explicit(&from->state, memory_order_relaxed);
  int64_t waits = atomic_load_explicit(&from->inbox_bytes, memory_order_relaxed);
  if (state != ARENA_PARKED && (state != ARENA_ACTIVE || waits < BACKLOG_BYTES)) return false;
  return waits > 0 ||
         atomic_load_explicit(&from->classes[size_class].count, memory_order_relaxed) > 0;
}

static bool adopt_from(struct arena *arena, struct arena *from, unsigned size_class) {
  if (!is_worth_asking(from, size_class) || !lock_try(&from->lock)) return false;
  bool taken = take_from(arena, from, size_class);
  lock_release(&from->lock);
  if (taken) probe_adopt(arena, from, class_size(size_class));
  return taken;
}

/* Of the arenas that began on a node; `far`: wherever their threads are now. Where there are more than a search asks, it begins at place `next`. */
static bool adopt_on(struct arena *arena, unsigned size_class, unsigned node, unsigned next,
                     bool far) {
  unsigned count = homes_on(node), asked = count < ADOPT_HEAPS ? count : ADOPT_HEAPS;
  unsigned first = count > asked ? next : 0;
  for (unsigned i = 0; i < asked; i++) {
    struct arena *from = homes_at(node, (first + i) % count);
    if (from != arena && (far || arena_node(from) == arena_node(arena)) &&
        adopt_from(arena, from, size_class))
      return true;
  }
  return false;
}

/* A thread may have moved to another node with its arena: so all lists are looked at. Each search goes on where the arena's last one for the class
 * has ended: by a place that all searches share, two of them in turn would each ask the same arenas again and again. */
bool adopt_slabs(struct arena *arena, unsigned size_class, bool far) {
  unsigned next = arena->classes[size_class].next_asked;
  arena->classes[size_class].next_asked = (uint8_t)(next + ADOPT_HEAPS);
  for (unsigned i = 0, node = arena_node(arena); i < node_end(); i++)
    if (adopt_on(arena, size_class, (node + i) % node_end(), next, far)) return true;
  return false;
}

/* --- what nobody asks for --------------------------------------------------------------------------------- */

/* A piece of what others freed, and of what its thread left; false: there is no more. Under its lock. */
static bool put_left(struct arena *from) {
  if (slabs_put_next(from, false)) return true;
  if (atomic_load_explicit(&from->state, memory_order_relaxed) != ARENA_PARKED) return false;
  const struct bin *bins = cache_beside(from)->bins;
  for (unsigned c = 0; c < CLASS_COUNT; c++)
    if (bins[c].head != NULL) {
      (void)slabs_put_parked_bin(from, c, false);
      return true;
    }
  return false;
}

/* Hints, all relaxed. */
static bool has_left(const struct arena *from) {
  return atomic_load_explicit(&from->users, memory_order_relaxed) == 0 &&
         (slabs_waiting(from) > 0 ||
          atomic_load_explicit(&from->parked_bins, memory_order_relaxed) > 0);
}

static bool put_back_of(struct arena *from) {
  if (!has_left(from) || !lock_try(&from->lock)) return false;
  bool put = atomic_load_explicit(&from->state, memory_order_relaxed) == ARENA_PARKED;
  put = put && put_left(from);
  if (put) parked_count_bins(from, bins_bytes(cache_beside(from)->bins));
  lock_release(&from->lock);
  return put;
}

void adopt_put_back_left(const struct arena *arena) {
  unsigned node = arena_node(arena), count = homes_on(node);
  for (unsigned i = 0; i < count; i++)
    if (homes_at(node, i) != arena && put_back_of(homes_at(node, i))) return;
}

/* Each block may be a miss in caches and tables of pages, 0.8 us: with eight pieces one malloc took 2 ms. */
void adopt_put_back(struct arena *arena) {
  if (!slabs_put_next(arena, true)) adopt_put_back_left(arena);
}

/* --- when the program has one thread again ---------------------------------------------------------------- */

static size_t left_in(const struct arena *from) {
  return slabs_waiting(from) + atomic_load_explicit(&from->parked_bins, memory_order_relaxed);
}

/* Nothing would go where less is left than the warm pool keeps, which is 16 MiB at first. Where the pool has grown by half of what is left, it has learned
 * that what goes is wanted again. To sort all the same costs programs of which each phase starts threads anew (docs/decisions/0040). */
static bool is_kept_warm(size_t left) { return left / 2 + RELEASE_MOST < unit_warm_most(); }

/* Of BLOCKS_A_HOLD blocks: half a million at most, in 0.1 to 0.3 s, for which whoever joins the thread waits. 4 million blocks of 16 bytes took
 * 1.4 s (docs/decisions/0040). The next such end goes on with what is left. */
enum { PIECES_AT_END = 1024 };

/* Returns how many pieces. The one thread that is there may send more meanwhile. */
static unsigned put_all_of(struct arena *from, unsigned most) {
  unsigned pieces = 0;
  for (bool more = left_in(from) > 0; more && pieces < most; pieces++) {
    lock_acquire(&from->lock);
    more = put_left(from);
    if (arena_state(from) == ARENA_PARKED)
      parked_count_bins(from, bins_bytes(cache_beside(from)->bins));
    lock_release_in_turn(&from->lock);
    superslab_settle();
  }
  return pieces;
}

static size_t left_in_all(void) {
  size_t bytes = 0;
  for (unsigned node = 0; node < node_end(); node++)
    for (unsigned i = 0; i < homes_on(node); i++) bytes += left_in(homes_at(node, i));
  return bytes;
}

/* Blocks of slabs that were adopted go to the inbox of another arena, which may have been done before. */
void adopt_put_all_back(void) {
  if (is_kept_warm(left_in_all())) return;
  unsigned pieces = PIECES_AT_END, before = 0;
  while (pieces != before && left_in_all() > 0) {
    before = pieces;
    for (unsigned node = 0; node < node_end(); node++)
      for (unsigned i = 0; i < homes_on(node); i++) pieces -= put_all_of(homes_at(node, i), pieces);
  }
}
