/* adopt.c - see adopt.h. */
#include "heap/adopt.h"

#include "heap/absent.h"
#include "heap/bins.h"
#include "heap/homes.h"
#include "heap/parked.h"
#include "heap/purger.h"
#include "heap/reclaim.h"
#include "heap/remote.h"
#include "heap/slabs.h"
#include "os/probe.h"

/* At most so many heaps are asked in a search, and so many entries of the list used up, the others next time: it is done under the
 * own heap's lock. */
enum { ADOPT_SLABS = 2, ADOPT_HEAPS = 16, ADOPT_LOOKS = 128 };

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

/* Slabs with room out of another arena, whose lock the caller holds as well as its own. */
static unsigned take_slabs(struct arena *arena, struct arena *from, unsigned size_class,
                           bool parked) {
  struct arena_class *slabs = &from->classes[size_class];
  unsigned taken = 0;
  struct slab *next;
  unsigned looked = 0;
  for (struct slab *slab = slabs->first;
       slab != NULL && taken < ADOPT_SLABS && looked < SLABS_A_HOLD; slab = next, looked++) {
    next = slab->next;
    if (!may_take(slab, parked)) continue;
    take_slab(arena, from, slab);
    taken++;
  }
  for (; parked && slabs->decommitted != NULL && taken < ADOPT_SLABS; taken++)
    take_slab(arena, from, slabs->decommitted);
  return taken;
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

/* What the heap has of the class, which others may take; the caller holds the locks of both. `*more`: it has blocks that were not
 * looked at. */
static bool take_from(struct arena *arena, struct arena *from, unsigned size_class, bool *more) {
  /* Read under the lock: only now is a parked heap sure to stay parked. */
  bool parked = atomic_load_explicit(&from->state, memory_order_relaxed) == ARENA_PARKED;
  *more = true;
  /* A drained list is taken as it is: sorting it into slabs waits for every link, which another processor wrote. Of a heap without a
   * thread a short one is sorted all the same: that empties slabs. */
  if (remote_steal(arena, from, size_class, !parked)) {
    take_slabs_of_batches(arena, from, size_class, parked);
    return true;
  }
  *more = slabs_put_batches(from, size_class);
  if (parked && slabs_put_parked_bin(from, size_class, true)) *more = true;
  return take_slabs(arena, from, size_class, parked) > 0;
}

enum outcome { NOTHING, LATER, TAKEN };

/* Takes memory of a heap that sleeps. */
static enum outcome adopt_from(struct arena *arena, struct arena *from, unsigned size_class) {
  bool more = true, taken = false;
  if (lock_try(&from->lock)) {
    taken = take_from(arena, from, size_class, &more);
    lock_release(&from->lock);
  }
  /* It may have more; or another has it just now, who may leave something. */
  if (taken) reclaim_enter_again(from, size_class);
  else if (more) reclaim_enter(from, size_class);
  return taken ? TAKEN : more ? LATER : NOTHING;
}

/* Of the heaps that were on this node when they were entered. */
static bool adopt_on(struct arena *arena, unsigned size_class, unsigned node) {
  struct arena *later = NULL; /* the first such: when it comes again, all have been asked */
  unsigned asked = 0;
  for (unsigned entries = 0; entries < ADOPT_LOOKS && asked < ADOPT_HEAPS; entries++) {
    struct arena *from = reclaim_take(node, size_class);
    if (from == NULL) return false;
    if (from == later) {
      reclaim_enter(from, size_class);
      return false;
    }
    if (from == arena || !reclaim_has_backlog(from)) continue;
    if (HAK_UNLIKELY(arena_node(from) != node)) {
      reclaim_enter(from, size_class); /* its thread has moved: into the other node's list */
      continue;
    }
    asked++;
    enum outcome outcome = adopt_from(arena, from, size_class);
    if (outcome == TAKEN) {
      probe_adopt(arena, from, class_size(size_class));
      return true;
    }
    if (outcome == LATER && later == NULL) later = from;
  }
  return false;
}

/* A heap whose thread has moved since it was entered stays in the other node's list, and if nobody searches there any more it would stay
 * for ever. So one of each other list is entered anew, at the end of the list of the node where it is now. True: of this one. */
static bool fetch_moved(unsigned size_class, unsigned node) {
  bool fetched = false;
  for (unsigned other = 0; other < node_end(); other++) {
    struct arena *from = other != node ? reclaim_take(other, size_class) : NULL;
    if (from == NULL || !reclaim_has_backlog(from)) continue;
    fetched = fetched || arena_node(from) == node;
    reclaim_enter(from, size_class);
  }
  return fetched;
}

static bool adopt_near(struct arena *arena, unsigned size_class) {
  unsigned node = arena_node(arena);
  if (adopt_on(arena, size_class, node)) return true;
  return node_are_many() && fetch_moved(size_class, node) && adopt_on(arena, size_class, node);
}

bool adopt_slabs(struct arena *arena, unsigned size_class, bool far) {
  if (!far) return adopt_near(arena, size_class);
  for (unsigned node = 0; node < node_end(); node++)
    if (adopt_on(arena, size_class, node)) return true;
  return false;
}

/* --- blocks -------------------------------------------------------------------------------------------------- */

/* Is there something, as far as can be told without its lock? */
static bool may_have(const struct arena *from, unsigned size_class) {
  if (atomic_load_explicit(&from->inboxes[size_class].free_blocks, memory_order_relaxed) > 0)
    return true;
  return atomic_load_explicit(&from->inbox_bytes, memory_order_relaxed) >= class_size(size_class) ||
         atomic_load_explicit(&from->parked_bins, memory_order_relaxed) >= class_size(size_class);
}

/* One batch that came back, or what one of its slabs has free. Under both locks. */
static unsigned take_some(struct arena *from, unsigned size_class, unsigned wanted, void **list) {
  unsigned count = remote_take_batch(from, size_class, list);
  if (count == 0 && atomic_load_explicit(&from->state, memory_order_relaxed) == ARENA_PARKED) {
    absent_prove(from);
    *list = bin_pop(&cache_beside(from)->bins[size_class]);
    if (*list != NULL) return 1;
  }
  struct slab *slab = from->classes[size_class].first;
  if (count > 0 || slab == NULL || slab->free_list == NULL) return count;
  count = slab_take_list(slab, wanted, list);
  slabs_count_free(from, slab, -(int64_t)count);
  slabs_list_again(from, slab);
  return count;
}

unsigned adopt_blocks(struct arena *arena, unsigned size_class, unsigned wanted, void **list) {
  unsigned at = 0, count = 0;
  for (struct arena *from; count == 0 && (from = homes_next(arena_node(arena), &at)) != NULL;) {
    if (from == arena || !may_have(from, size_class) || !lock_try(&from->lock)) continue;
    count = take_some(from, size_class, wanted, list);
    lock_release(&from->lock);
  }
  return count;
}
