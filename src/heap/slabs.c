/* slabs.c - the lists of a heap's slabs, and how blocks go back into them. */
#include "heap/slabs.h"

#include "heap/absent.h"
#include "heap/purger.h"
#include "heap/remote.h"
#include "observe/report.h"

/* --- lists of slabs with free blocks; all under arena->lock -------------------------------------------------- */

static void count_partial(struct arena_class *slabs, int sign) {
  uint32_t before = atomic_load_explicit(&slabs->partial, memory_order_relaxed);
  atomic_store_explicit(&slabs->partial, before + (uint32_t)sign, memory_order_relaxed);
}

void slabs_unlist(struct arena *arena, struct slab *slab) {
  struct arena_class *slabs = &arena->classes[slab->size_class];
  if (slabs->next_scanned == slab) slabs->next_scanned = slab->next;
  bool partial = slab->listed == LIST_PARTIAL;
  if (slab->prev != NULL) slab->prev->next = slab->next;
  else if (partial) slabs->first = slab->next;
  else slabs->decommitted = slab->next;
  if (slab->next != NULL) slab->next->prev = slab->prev;
  else if (partial) slabs->last = slab->prev;
  slab->next = slab->prev = NULL;
  slab->listed = LIST_NONE;
  if (partial) count_partial(slabs, -1);
}

static void enlist_decommitted(struct arena_class *slabs, struct slab *slab) {
  slab->prev = NULL;
  slab->next = slabs->decommitted;
  if (slab->next != NULL) slab->next->prev = slab;
  slabs->decommitted = slab;
  slab->listed = LIST_DECOMMITTED;
}

/* At the end: a slab that just got its first block back is used last, and fills up meanwhile. */
void slabs_enlist(struct arena *arena, struct slab *slab) {
  struct arena_class *slabs = &arena->classes[slab->size_class];
  if (HAK_UNLIKELY(slab_is_decommitted(slab))) {
    enlist_decommitted(slabs, slab);
    return;
  }
  slab->prev = slabs->last;
  slab->next = NULL;
  if (slabs->last != NULL) slabs->last->next = slab;
  else slabs->first = slab;
  slabs->last = slab;
  slab->listed = LIST_PARTIAL;
  count_partial(slabs, 1);
}

void slabs_own(struct arena *arena, struct slab *slab) {
  atomic_fetch_add_explicit(&arena->classes[slab->size_class].count, 1, memory_order_relaxed);
  atomic_fetch_add_explicit(&arena->slab_bytes, (size_t)slab->slices << SLICE_SHIFT,
                            memory_order_relaxed);
  slabs_count_free(arena, slab, slab_free_count(slab));
  arena->decommitted_bytes += slab_decommitted_bytes(slab);
  size_t in_memory = slabs_owned(arena) - arena->decommitted_bytes;
  if (in_memory > arena->peak_committed) arena->peak_committed = in_memory;
}

void slabs_disown(struct arena *arena, struct slab *slab) {
  if (slab->listed != LIST_NONE) slabs_unlist(arena, slab);
  atomic_fetch_sub_explicit(&arena->classes[slab->size_class].count, 1, memory_order_relaxed);
  atomic_fetch_sub_explicit(&arena->slab_bytes, (size_t)slab->slices << SLICE_SHIFT,
                            memory_order_relaxed);
  slabs_count_free(arena, slab, -(int64_t)slab_free_count(slab));
  arena->decommitted_bytes -= slab_decommitted_bytes(slab);
}

void slabs_give_up(struct arena *arena, struct slab *slab) {
  slabs_disown(arena, slab);
  slab_release(slab);
}

/* --- back into slabs ------------------------------------------------------------------------------------ */

/* The slab changed owners while they were under way. */
static HAK_COLD void put_elsewhere(struct inbox *inbox, void *first, unsigned count,
                                   struct misrouted *misrouted) {
  if (inbox == NULL) report_bad_pointer("free", first, REPORT_DOUBLE_FREE);
  if (misrouted != NULL) remote_gather_misrouted(misrouted, inbox, first, count);
  else remote_send_list(inbox, first, count);
}

void slabs_put_run(struct arena *arena, struct slab *slab, void *first, void *last, unsigned count,
                   bool keep_last) {
  slab_put(slab, first, last, count);
  slabs_count_free(arena, slab, count);
  if (HAK_UNLIKELY(slab->listed == LIST_FULL)) slabs_leave_ring(slab);
  if (slab->purging) return; /* purge_end's caller lists or releases it */
  if (slab_is_empty(slab)) {
    /* One slab a class stays, so that a program at the edge of one does not map and unmap it. */
    bool last_slab =
        atomic_load_explicit(&arena->classes[slab->size_class].count, memory_order_relaxed) == 1;
    if (!(last_slab && keep_last)) {
      slabs_give_up(arena, slab);
      return;
    }
  }
  if (slab->listed == LIST_DECOMMITTED) slabs_unlist(arena, slab);
  if (slab->listed == LIST_NONE) slabs_enlist(arena, slab);
}

/* Where in its slab, which begins with a slice, a block lies. */
static uint32_t place_in(const struct slab *slice, const void *block) {
  return (uint32_t)((uintptr_t)block % SLICE_BYTES) + ((uint32_t)slice->offset << SLICE_SHIFT);
}

/* Do blocks of the class start there? Links lie in the program's memory. */
static bool are_blocks(const struct slab *slice, const void *first, const void *last,
                       unsigned size_class) {
  if (atomic_load_explicit(&slice->kind, memory_order_relaxed) != KIND_SLAB ||
      slice->size_class != size_class)
    return false;
  uint32_t size = slab_block_size(slice);
  return place_in(slice, first) % size == 0 && (first == last || place_in(slice, last) % size == 0);
}

/* `count` blocks of one slice, linked from `first` to `last`. */
HAK_INLINE void put_run(struct arena *arena, struct slab *slice, void *first, void *last,
                        unsigned count, bool keep_last, struct misrouted *misrouted) {
  struct inbox *inbox = map_inbox(first);
  if (HAK_LIKELY(arena_owns(arena, inbox)))
    slabs_put_run(arena, slab_head(slice), first, last, count, keep_last);
  else put_elsewhere(inbox, first, count, misrouted);
}

/* Does the second lie in the slice of the first, at a place that a block may have? */
static bool may_follow(const void *first, const void *second) {
  return (((uintptr_t)first ^ (uintptr_t)second) & ~(SLICE_BYTES - BLOCK_ALIGNMENT)) == 0;
}

/* Takes blocks off the list and puts them back, BLOCKS_A_HOLD and what is left of the last run; returns how many.
 * Blocks that were freed one after the other often lie in one slab: such a run goes back as it is linked, and is looked up once. No link
 * is followed that leads out of our memory. A block that was freed twice may link a list to itself: a run ends where no slice has more
 * blocks, and slab_put finds them too many. `misrouted`: where others' blocks are gathered; NULL: they are sent run by run. */
static unsigned put_some(struct arena *arena, unsigned size_class, void **list, bool keep_last,
                         struct misrouted *misrouted) {
  void *next = *list;
  const void *from = next;
  unsigned put = 0;
  while (next != NULL && put < BLOCKS_A_HOLD) {
    void *first = next, *last;
    struct slab *slice = map_slab(first);
    if (HAK_UNLIKELY(slice == NULL || (uintptr_t)first % BLOCK_ALIGNMENT != 0)) link_report(from);
    unsigned count = 0;
    do {
      last = next;
      next = link_next(last);
      count++;
    } while (next != NULL && may_follow(first, next) && count < SLICE_BYTES / BLOCK_ALIGNMENT);
    if (HAK_UNLIKELY(!are_blocks(slice, first, last, size_class))) link_report(from);
    put_run(arena, slice, first, last, count, keep_last, misrouted);
    from = last;
    put += count;
  }
  *list = next;
  return put;
}

static void put_all(struct arena *arena, unsigned size_class, void *list, bool keep_last,
                    struct misrouted *misrouted) {
  for (;;) {
    slabs_count(arena, size_class, COUNT_TO_SLABS,
                put_some(arena, size_class, &list, keep_last, misrouted));
    if (HAK_LIKELY(list == NULL)) return;
    lock_release_in_turn(&arena->lock);
    lock_acquire(&arena->lock);
  }
}

void slabs_put_list(struct arena *arena, unsigned size_class, void *list, bool keep_last) {
  put_all(arena, size_class, list, keep_last, NULL);
}

void slabs_put_mixed(struct arena *arena, unsigned size_class, void *list, bool keep_last) {
  struct misrouted misrouted = {0};
  put_all(arena, size_class, list, keep_last, &misrouted);
  remote_send_misrouted(&misrouted);
}

bool slabs_put_batches(struct arena *arena, unsigned size_class, bool keep_last) {
  struct misrouted misrouted = {0};
  unsigned put = 0, count = 1;
  void *list;
  while (put < BLOCKS_A_HOLD && (count = remote_take_batch(arena, size_class, &list)) > 0) {
    while (list != NULL) (void)put_some(arena, size_class, &list, keep_last, &misrouted);
    put += count;
    if (superslab_is_unsettled()) break;
  }
  remote_send_misrouted(&misrouted);
  return count > 0;
}

/* --- what others freed, and nobody asks for --------------------------------------------------------------- */

/* So much of a large home that its threads' refills would be long in wanting it. */
enum { FREE_OF_4 = 3 };

static bool is_mostly_free(const struct arena *arena) {
  size_t in_memory = slabs_owned(arena) - arena->decommitted_bytes;
  return in_memory >= RELEASE_MOST &&
         slabs_waiting(arena) + arena->free_bytes >= in_memory / 4 * FREE_OF_4;
}

/* The class whose turn it is: one after the other, so that slabs become empty. False: nothing waits. */
static bool turn_to_waiting(struct arena *arena) {
  for (unsigned i = 0; i < CLASS_COUNT; i++) {
    if (remote_has_batches(arena, arena->turn, 1)) return true;
    arena->turn = (uint8_t)((arena->turn + 1U) % CLASS_COUNT);
  }
  return false;
}

bool slabs_put_next(struct arena *arena, bool keep_last) {
  if (slabs_waiting(arena) == 0 || !turn_to_waiting(arena)) return false;
  (void)slabs_put_batches(arena, arena->turn, keep_last);
  return true;
}

void slabs_put_waiting(struct arena *arena, size_t bytes) {
  size_t waits = slabs_waiting(arena);
  if (waits < bytes || !is_mostly_free(arena)) return;
  for (unsigned i = 0; i < HOLDS_MOST && slabs_put_next(arena, true); i++) {
    if (slabs_waiting(arena) + bytes <= waits || superslab_is_unsettled()) break;
    lock_release_in_turn(&arena->lock);
    lock_acquire(&arena->lock);
  }
}

bool slabs_put_parked_bin(struct arena *arena, unsigned size_class, bool keep_last) {
  absent_prove(arena);
  struct bin *bin = &cache_beside(arena)->bins[size_class];
  struct misrouted misrouted = {0};
  unsigned put = put_some(arena, size_class, &bin->head, keep_last, &misrouted);
  remote_send_misrouted(&misrouted);
  bin->room += (int32_t)put;
  slabs_count(arena, size_class, COUNT_TO_SLABS, put);
  return bin->head != NULL;
}

void slabs_drain_bins(struct thread_cache *cache) {
  for (unsigned c = 0; c < CLASS_COUNT; c++) {
    struct bin *bin = &cache->bins[c];
    void *list = bin->head;
    if (list == NULL) continue;
    bin->head = NULL;
    bin->room = (int32_t)bin->capacity;
    lock_acquire(&cache->arena->lock);
    slabs_put_mixed(cache->arena, c, list, false);
    lock_release(&cache->arena->lock);
    superslab_settle();
  }
}
