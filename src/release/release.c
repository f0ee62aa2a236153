/* release.c - see release.h. */
#include "release/scan.h"

#include "heap/absent.h"
#include "heap/named.h"
#include "heap/parked.h"
#include "heap/purger.h"
#include "heap/quarantine.h"
#include "heap/remote.h"
#include "heap/samples.h"
#include "heap/slabs.h"
#include "heap/slots.h"
#include "observe/report.h"
#include "policy/options.h"
#include "release/marks.h"
#include "slab/holes.h"
#include "superslab/dirty.h"
#include "superslab/unit.h"

/* How much is in the purger's hands at once. A fork waits for as long as this takes, and a thread that needs a
 * slab meanwhile takes another: with 16, building and dropping trees peaked 2 MB higher. */
enum { SLABS_AT_ONCE = 4, RANGES_AT_ONCE = 64 };

/* Of the batch, under purger_batch_lock: not on the stack, since malloc_trim may be called with 2 KiB of one. */
static struct os_range ranges[RANGES_AT_ONCE];
static struct purge purges[SLABS_AT_ONCE];

/* --- giving back ------------------------------------------------------------------------------------------ */

static void flush(struct scan *scan) {
  /* Lazily, the pages stay for as long as the kernel has others. */
  bool lazily = scan->idle_scans > 0 && option_value(SS_MEM_LEAN_DECOMMIT) == DECOMMIT_FREE;
  if (!lazily) {
    if (!os_decommit_all(ranges, scan->count)) scan->gone = false;
    else
      for (size_t i = 0; i < scan->count; i++) scan->gone_bytes += ranges[i].bytes;
  } else {
    for (size_t i = 0; i < scan->count; i++) os_decommit_lazily(ranges[i].address, ranges[i].bytes);
    scan->gone = false;
  }
  scan->count = 0;
}

static void queue_range(void *argument, char *address, size_t bytes) {
  struct scan *scan = argument;
  if (scan->count == RANGES_AT_ONCE) flush(scan);
  ranges[scan->count++] = (struct os_range){address, bytes};
  scan->decommitted += bytes;
}

static void batch_begin(struct scan *scan) {
  lock_acquire(&purger_batch_lock);
  scan->gone = true;
  scan->count = 0;
}

static void batch_end(void) { lock_release(&purger_batch_lock); }

/* --- slabs ------------------------------------------------------------------------------------------------- */

/* Takes the free blocks of slabs of the class that are old enough; under the heap's lock. */
static unsigned begin(struct arena *arena, struct arena_class *slabs, struct scan *scan) {
  unsigned count = 0;
  if (HAK_UNLIKELY(named_is_walked(arena))) {
    slabs->next_scanned = NULL;
    return 0;
  }
  for (unsigned scanned = 0;
       slabs->next_scanned != NULL && scanned < SLABS_A_HOLD && count < SLABS_AT_ONCE; scanned++) {
    struct slab *slab = slabs->next_scanned;
    slabs->next_scanned = slab->next;
    if (slab->age == SLAB_CLEAN) continue;
    if (slab->age == SLAB_HUGE && scan->idle_scans > 0 && superslab_is_whole(superslab_of(slab)))
      continue;
    if (slab->age < scan->idle_scans && !scan->at_once) {
      slab->age++;
      scan->unexpired += (size_t)slab_free_count(slab) * slab_block_size(slab);
      continue;
    }
    if (slab_is_empty(slab)) {
      slabs_give_up(arena, slab);
      continue;
    }
    slabs_unlist(arena, slab);
    slabs_count_free(arena, slab, -(int64_t)slab_free_count(slab));
    purge_begin(&purges[count++], slab);
  }
  return count;
}

static void end(struct arena *arena, struct purge *purge, bool gone, bool growth_purged) {
  struct slab *slab = purge->slab;
  size_t before = slab_decommitted_bytes(slab);
  purge_end(purge, gone);
  size_t after = slab_decommitted_bytes(slab);
  arena->decommitted_bytes += after - before;
  if (after > before) {
    arena->recommitted_bytes = 0;
    arena->growth_purged = growth_purged;
  }
  slabs_count_free(arena, slab, purge->count);
  if (slab_is_empty(slab)) {
    slabs_give_up(arena, slab);
  } else if (slab_has_room(slab)) {
    slabs_enlist(arena, slab);
  }
}

bool scan_slabs(struct arena *arena, struct arena_class *slabs, struct scan *scan) {
  batch_begin(scan);
  lock_acquire(&arena->lock);
  unsigned count = begin(arena, slabs, scan);
  bool more = slabs->next_scanned != NULL;
  lock_release_in_turn(&arena->lock);
  for (unsigned i = 0; i < count; i++) {
    bool was_whole = superslab_is_whole(superslab_of(purges[i].slab));
    purge_find(&purges[i], scan->idle_scans == 0);
    purge_each(&purges[i], queue_range, scan);
    if (was_whole && !superslab_is_whole(superslab_of(purges[i].slab))) scan->split = true;
  }
  flush(scan);
  for (unsigned i = 0; i < count; i++) {
    lock_acquire(&arena->lock); /* one at a time: blocks that came back meanwhile are walked */
    end(arena, &purges[i], scan->gone, scan->at_once);
    lock_release_in_turn(&arena->lock);
  }
  batch_end();
  superslab_settle();
  return more;
}

bool scan_start(struct arena *arena, unsigned size_class) {
  struct arena_class *slabs = &arena->classes[size_class];
  if (atomic_load_explicit(&slabs->count, memory_order_relaxed) == 0) return false;
  lock_acquire(&arena->lock);
  slabs->next_scanned = slabs->first;
  bool any = slabs->first != NULL;
  lock_release(&arena->lock);
  return any;
}

/* A piece of the class that is next; false: it has no slabs. The program may take the slab at which it would go on: then the rest of the class is
 * left to the next scan, for two looks are to be half the decay time apart. */
static bool scan_class(struct scan *scan) {
  struct arena_class *slabs = &scan->arena->classes[scan->size_class];
  if (!scan->in_class && !scan_start(scan->arena, scan->size_class)) {
    scan->size_class++;
    return false;
  }
  /* Purged slabs go to the list's end and are scanned again, once: hence the bound. */
  if (!scan->in_class)
    scan->left = atomic_load_explicit(&slabs->count, memory_order_relaxed) * 2 + SLABS_A_HOLD;
  bool more = scan_slabs(scan->arena, slabs, scan);
  scan->in_class = more && scan->left > SLABS_AT_ONCE;
  if (scan->in_class) scan->left -= SLABS_AT_ONCE;
  else scan->size_class++;
  return true;
}

/* --- heaps ------------------------------------------------------------------------------------------------- */

/* Are its bins under its lock? */
static bool has_no_thread(const struct arena *arena) {
  uint8_t state = atomic_load_explicit(&arena->state, memory_order_relaxed);
  return state == ARENA_PARKED;
}

/* Is it a thread's, or was it? */
static bool has_cache(const struct arena *arena) {
  return arena_state(arena) != ARENA_SAMPLES && arena_state(arena) != ARENA_NAMED;
}

/* What the thread of a class at rest would do with its inbox, and the next thread with a parked heap's bins. A class rests by itself: its
 * thread may be busy in another. Once in a scan, before scan_heap_tidy. False: there is nothing to tidy. */
static bool scan_heap_begin(struct arena *arena) {
  bool parked = has_no_thread(arena);
  bool sent = atomic_load_explicit(&arena->inbox_bytes, memory_order_relaxed) > 0;
  if (!parked && !sent) return false;
  if (arena_is_bare(arena)) return false;
  lock_acquire(&arena->lock);
  absent_prove(arena);
  for (unsigned c = 0; c < CLASS_COUNT; c++)
    if (arena->classes[c].idle_scans < UINT8_MAX) arena->classes[c].idle_scans++;
  lock_release(&arena->lock);
  superslab_settle();
  return true;
}

/* Puts some blocks of a class at rest into their slabs; false: none are left. */
static bool scan_heap_tidy(struct arena *arena, unsigned size_class, const struct scan *scan) {
  lock_acquire(&arena->lock);
  bool more = false;
  if (scan->idle_scans == 0 || arena->classes[size_class].idle_scans > scan->idle_scans) {
    bool parked = has_no_thread(arena);
    more = parked && cache_beside(arena)->bins[size_class].head != NULL;
    if (more) slabs_put_parked_bin(arena, size_class, true);
    else more = slabs_put_batches(arena, size_class, true);
  }
  lock_release_in_turn(&arena->lock);
  superslab_settle();
  return more;
}

/* Once in a scan, after scan_heap_tidy: counts what is left as unexpired. */
static void scan_heap_end(struct arena *arena, struct scan *scan) {
  int64_t left = atomic_load_explicit(&arena->inbox_bytes, memory_order_relaxed);
  if (left > 0) scan->unexpired += (size_t)left;
  lock_acquire(&arena->lock);
  if (has_no_thread(arena)) {
    size_t bytes = bins_bytes(cache_beside(arena)->bins);
    parked_count_bins(arena, bytes);
    scan->unexpired += bytes;
  }
  lock_release(&arena->lock);
}

/* The heap's cached Large blocks. */
static void scan_spans(struct arena *arena, struct scan *scan) {
  struct slab *spans[SPANS_CACHED];
  batch_begin(scan);
  unsigned count =
      span_cache_claim_old(&cache_beside(arena)->spans, scan->idle_scans, spans, &scan->unexpired);
  for (unsigned i = 0; i < count; i++) {
    superslab_split(superslab_of(spans[i]));
    queue_range(scan, slab_base(spans[i]), (size_t)spans[i]->slices << SLICE_SHIFT);
  }
  flush(scan);
  for (unsigned i = 0; i < count; i++) span_cache_decommitted(spans[i]);
  batch_end();
}

/* What threads have freed for others and not sent goes into the inboxes of its owners, which are scanned after this. Of a thread that is at
 * its slots just now the next scan gets it. */
static void scan_unsent(struct scan *scan) {
  const struct thread_cache *mine = cache_if_any();
  bool any = false;
  if (!os_fences_threads()) return;
  for (struct arena *arena = arena_first(); arena != NULL; arena = arena->next)
    if (has_cache(arena) && cache_beside(arena) != mine) any |= slots_claim(cache_beside(arena));
  if (!any || !os_fence_threads()) return;
  for (struct arena *arena = arena_first(); arena != NULL; arena = arena->next)
    if (has_cache(arena) && cache_beside(arena) != mine)
      scan->unexpired += slots_send_claimed(cache_beside(arena), scan->idle_scans);
}

/* --- below the heaps --------------------------------------------------------------------------------------- */

static void queue_slices(struct scan *scan, struct dirty_slices set) {
  superslab_split(set.superslab);
  for (unsigned i = 0; i < SLICES_PER_UNIT; i++) {
    unsigned first = i;
    while (i < SLICES_PER_UNIT && (set.mask >> i & 1) != 0) i++;
    if (i > first)
      queue_range(scan, set.superslab->base + ((size_t)first << SLICE_SHIFT),
                  (size_t)(i - first) << SLICE_SHIFT);
  }
}

/* Of a few SuperSlabs; false: there are no more. */
static bool scan_slices(struct scan *scan) {
  struct dirty_slices sets[SLABS_AT_ONCE];
  batch_begin(scan);
  unsigned count =
      superslab_take_dirty(&scan->slices, scan->idle_scans, sets, SLABS_AT_ONCE, &scan->unexpired);
  for (unsigned i = 0; i < count; i++) queue_slices(scan, sets[i]);
  flush(scan);
  for (unsigned i = 0; i < count; i++) superslab_put_clean(sets[i], scan->gone);
  batch_end();
  return count > 0;
}

/* --- passes ------------------------------------------------------------------------------------------------ */

/* Goes to that arena, or the first after it in which anything may be; of empty ones only some, each a cache miss or two. */
static void go_to_heap(struct scan *scan, struct arena *arena) {
  for (unsigned i = 0; i < SLABS_A_HOLD && arena != NULL && arena_is_bare(arena); i++)
    arena = arena->next;
  scan->arena = arena;
  scan->size_class = 0;
  scan->in_class = false;
  scan->stage = arena == NULL ? SCAN_SLICES : scan_heap_begin(arena) ? SCAN_INBOXES : SCAN_SLABS;
}

static void step_in_inboxes(struct scan *scan) {
  for (; scan->size_class < CLASS_COUNT; scan->size_class++)
    if (scan_heap_tidy(scan->arena, scan->size_class, scan)) return;
  scan_heap_end(scan->arena, scan);
  scan->size_class = 0;
  scan->stage = SCAN_SLABS;
}

/* What is free from now on calls for the next scan. */
static void set_mark(struct arena *arena) {
  lock_acquire(&arena->lock);
  purger_set_mark(arena);
  lock_release(&arena->lock);
}

static void step_in_slabs(struct scan *scan) {
  struct arena *arena = scan->arena;
  while (slabs_owned(arena) > 0 && scan->size_class < CLASS_COUNT)
    if (scan_class(scan)) return;
  if (!arena_is_bare(arena)) {
    if (has_cache(arena)) scan_spans(arena, scan);
    set_mark(arena);
  }
  go_to_heap(scan, arena->next);
}

static void end_scan(struct scan *scan) {
  if (scan->idle_scans > 0) scan->unexpired += unit_age();
  if (scan->split) scan->unexpired += UNIT_BYTES;
  release_mark_below();
  scan->stage = SCAN_DONE;
}

bool scan_step(struct scan *scan) {
  if (scan->stage == SCAN_BEGINS) {
    if (scan->fences) scan_unsent(scan);
    go_to_heap(scan, arena_first());
  } else if (scan->stage == SCAN_INBOXES) {
    step_in_inboxes(scan);
  } else if (scan->stage == SCAN_SLABS) {
    step_in_slabs(scan);
  } else if (!scan_slices(scan)) {
    end_scan(scan);
  }
  return scan->stage != SCAN_DONE;
}

/* Is it to be broken off? Each piece takes a millisecond at most. */
static bool stops(const struct scan *scan) { return scan->goes_on != NULL && !scan->goes_on(); }

static struct scan scan_all(unsigned idle_scans, bool (*goes_on)(void)) {
  struct scan scan = {.idle_scans = idle_scans, .goes_on = goes_on, .fences = true};
  /* This thread is at work already, and a library that it tells of pages that go has come back. */
  if (lock_holder(&purger_scan_lock) == LOCK_MINE) return scan;
  lock_acquire(&purger_scan_lock);
  while (scan_step(&scan) && !stops(&scan)) continue;
  lock_release(&purger_scan_lock);
  return scan;
}

size_t release_scan(unsigned idle_scans, bool (*goes_on)(void)) {
  struct scan scan = scan_all(idle_scans, goes_on);
  if (idle_scans == 0) unit_trim();
  bool broken_off = goes_on != NULL && scan.stage != SCAN_DONE;
  return broken_off ? SIZE_MAX : scan.unexpired;
}

void release_own_caches(void) {
  struct thread_cache *mine = cache_if_any();
  heap_samples_flush();
  if (mine == NULL) return;
  quarantine_flush(mine);
  remote_flush(mine);
  span_cache_flush(&mine->spans);
  slabs_drain_bins(mine);
}

size_t release_purge(void) {
  struct unit_stats units_before, units_after;
  if (!heap_start()) return 0;
  unit_stats_get(&units_before);
  release_own_caches();
  size_t gone = scan_all(0, NULL).gone_bytes;
  /* Once more: a block that went home to another heap just now may have been that heap's last. */
  gone += scan_all(0, NULL).gone_bytes;
  unit_trim();
  unit_stats_get(&units_after);
  uint64_t was = units_before.bytes_mapped, is = units_after.bytes_mapped;
  /* What went within a unit that became empty and went as well counts twice, which is rare. */
  return gone + (was > is ? (size_t)(was - is) : 0);
}

bool release_for_refused(void) {
  if (heap_is_beside_program() || os_refuses_all()) return false;
  (void)release_purge();
  return true;
}
