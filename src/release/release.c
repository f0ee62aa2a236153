/* release.c - see release.h. */
#include "release/release.h"

#include "heap/engine.h"
#include "heap/remote.h"
#include "heap/slabs.h"
#include "observe/report.h"
#include "policy/options.h"
#include "release/background.h"
#include "release/marks.h"
#include "slab/holes.h"
#include "superslab/dirty.h"

/* How much is in the engine's hands at once. A fork waits for as long as this takes, and a thread that needs a
 * slab meanwhile takes another: with 16, building and dropping trees peaked 2 MB higher. */
enum { SLABS_AT_ONCE = 4, RANGES_AT_ONCE = 64 };
/* Slabs looked at in one hold of a heap's lock, each a cache miss or two. */
enum { LOOKS_AT_ONCE = 32 };

struct pass {
  unsigned looks; /* 0: everything goes, whatever its age */
  size_t young;   /* bytes that have to wait */
  bool split;     /* a huge page was broken up: its other slabs deserve another look */
  bool gone;      /* every page of the batch was given back, and reads as zeros */
  size_t count;   /* ranges gathered */
  size_t given;   /* bytes in all */
};

/* Of the batch, under engine_batch_lock: not on the stack, since malloc_trim may be called with 2 KiB of one. */
static struct os_range ranges[RANGES_AT_ONCE];
static struct purge purges[SLABS_AT_ONCE];

/* --- giving back ------------------------------------------------------------------------------------------ */

static void flush(struct pass *pass) {
  /* Lazily, the pages stay for as long as the kernel has others. */
  bool lazily = pass->looks > 0 && option_value(SS_MEM_LEAN_DECOMMIT) == DECOMMIT_FREE;
  if (!lazily) {
    if (!os_decommit_all(ranges, pass->count)) pass->gone = false;
  } else {
    for (size_t i = 0; i < pass->count; i++) os_decommit_lazily(ranges[i].address, ranges[i].bytes);
    pass->gone = false;
  }
  pass->count = 0;
}

static void give(void *argument, char *address, size_t bytes) {
  struct pass *pass = argument;
  if (pass->count == RANGES_AT_ONCE) flush(pass);
  ranges[pass->count++] = (struct os_range){address, bytes};
  pass->given += bytes;
}

static void batch_begin(struct pass *pass) {
  lock_acquire(&engine_batch_lock);
  pass->gone = true;
  pass->count = 0;
}

static void batch_end(void) { lock_release(&engine_batch_lock); }

/* --- slabs ------------------------------------------------------------------------------------------------- */

/* Takes the free blocks of slabs of the class that are old enough; under the heap's lock. */
static unsigned begin(struct heap *heap, struct class_slabs *slabs, struct pass *pass) {
  unsigned count = 0;
  for (unsigned looked = 0;
       slabs->next_look != NULL && looked < LOOKS_AT_ONCE && count < SLABS_AT_ONCE; looked++) {
    struct slab *slab = slabs->next_look;
    slabs->next_look = slab->next;
    if (slab->age == SLAB_CLEAN) continue;
    if (slab->age == SLAB_HUGE && pass->looks > 0 && superslab_is_whole(superslab_of(slab)))
      continue;
    if (slab->age < pass->looks) {
      slab->age++;
      pass->young += (size_t)slab_free_count(slab) * slab_block_size(slab);
      continue;
    }
    if (slab_is_empty(slab)) {
      slabs_give_up(heap, slab);
      continue;
    }
    slabs_unlist(heap, slab);
    heap->free_bytes -= (size_t)slab_free_count(slab) * slab_block_size(slab);
    purge_begin(&purges[count++], slab);
  }
  return count;
}

static void end(struct heap *heap, struct purge *purge, bool gone) {
  struct slab *slab = purge->slab;
  size_t before = slab_given_bytes(slab);
  purge_end(purge, gone);
  size_t after = slab_given_bytes(slab);
  heap->given_bytes += after - before;
  if (after > before) heap->reopened_bytes = 0;
  heap->free_bytes += (size_t)purge->count * slab_block_size(slab);
  if (slab_is_empty(slab)) slabs_give_up(heap, slab);
  else if (slab_has_room(slab)) slabs_enlist(heap, slab);
}

/* Up to a batch of slabs of the class; false when the class is done. */
static bool look_at_slabs(struct heap *heap, struct class_slabs *slabs, struct pass *pass) {
  batch_begin(pass);
  lock_acquire(&heap->lock);
  unsigned count = begin(heap, slabs, pass);
  bool more = slabs->next_look != NULL;
  lock_release_in_turn(&heap->lock);
  for (unsigned i = 0; i < count; i++) {
    bool was_whole = superslab_is_whole(superslab_of(purges[i].slab));
    purge_find(&purges[i], pass->looks == 0);
    purge_each(&purges[i], give, pass);
    if (was_whole && !superslab_is_whole(superslab_of(purges[i].slab))) pass->split = true;
  }
  flush(pass);
  for (unsigned i = 0; i < count; i++) {
    lock_acquire(&heap->lock); /* one at a time: blocks that came back meanwhile are walked */
    end(heap, &purges[i], pass->gone);
    lock_release_in_turn(&heap->lock);
  }
  batch_end();
  superslab_settle();
  return more;
}

static void look_at_class(struct heap *heap, unsigned size_class, struct pass *pass) {
  struct class_slabs *slabs = &heap->classes[size_class];
  lock_acquire(&heap->lock);
  slabs->next_look = slabs->first;
  bool any = slabs->first != NULL;
  lock_release(&heap->lock);
  /* Purged slabs go to the list's end and are looked at again, once: hence the bound. */
  size_t most = atomic_load_explicit(&slabs->count, memory_order_relaxed) * 2 + LOOKS_AT_ONCE;
  for (size_t looked = 0; any && looked < most; looked += SLABS_AT_ONCE)
    any = look_at_slabs(heap, slabs, pass);
}

/* --- heaps ------------------------------------------------------------------------------------------------- */

/* Some blocks of a bin of an ended thread; false: none are left, or a thread has the heap now. */
static bool parked_bin_to_slabs(struct heap *heap, unsigned size_class) {
  lock_acquire(&heap->lock);
  bool parked = atomic_load_explicit(&heap->state, memory_order_relaxed) == HEAP_PARKED;
  bool more = parked && slabs_put_parked_bin(heap, size_class);
  lock_release_in_turn(&heap->lock);
  superslab_settle();
  return more;
}

static bool batches_to_slabs(struct heap *heap, unsigned size_class) {
  lock_acquire(&heap->lock);
  bool more = slabs_put_batches(heap, size_class);
  lock_release_in_turn(&heap->lock);
  superslab_settle();
  return more;
}

/* What the thread of a class at rest would do with its inbox, and the next thread with a parked heap's bins. A class rests
 * by itself: its thread may be busy in another. */
static void tidy(struct heap *heap, struct pass *pass) {
  bool parked = atomic_load_explicit(&heap->state, memory_order_relaxed) == HEAP_PARKED;
  bool sent = atomic_load_explicit(&heap->inbox_bytes, memory_order_relaxed) > 0;
  for (unsigned c = 0; (parked || sent) && c < CLASS_COUNT; c++) {
    lock_acquire(&heap->lock);
    bool rests = heap->quiet[c] >= pass->looks;
    if (heap->quiet[c] < LOOKS) heap->quiet[c]++;
    lock_release(&heap->lock);
    if (!rests) continue;
    while (parked && parked_bin_to_slabs(heap, c)) continue;
    while (sent && batches_to_slabs(heap, c)) continue;
  }
  int64_t left = atomic_load_explicit(&heap->inbox_bytes, memory_order_relaxed);
  if (left > 0) pass->young += (size_t)left;
}

static void look_at_spans(struct heap *heap, struct pass *pass) {
  struct slab *spans[SPANS_CACHED];
  batch_begin(pass);
  unsigned count = span_cache_claim_old(&heap->spans, pass->looks, spans, &pass->young);
  for (unsigned i = 0; i < count; i++) {
    superslab_split(superslab_of(spans[i]));
    give(pass, slab_base(spans[i]), (size_t)spans[i]->slices << SLICE_SHIFT);
  }
  flush(pass);
  for (unsigned i = 0; i < count; i++) span_cache_given(spans[i]);
  batch_end();
}

static void look_at_heap(struct heap *heap, struct pass *pass) {
  tidy(heap, pass);
  for (unsigned c = 0; c < CLASS_COUNT; c++)
    if (atomic_load_explicit(&heap->classes[c].count, memory_order_relaxed) > 0)
      look_at_class(heap, c, pass);
  look_at_spans(heap, pass);
}

/* --- below the heaps --------------------------------------------------------------------------------------- */

static void give_slices(struct pass *pass, struct dirty_slices set) {
  superslab_split(set.superslab);
  for (unsigned i = 0; i < SLICES_PER_UNIT; i++) {
    unsigned first = i;
    while (i < SLICES_PER_UNIT && (set.mask >> i & 1) != 0) i++;
    if (i > first)
      give(pass, set.superslab->base + ((size_t)first << SLICE_SHIFT),
           (size_t)(i - first) << SLICE_SHIFT);
  }
}

/* Those of a few SuperSlabs; false: there are no more. */
static bool look_at_some_slices(struct dirty_cursor *cursor, struct pass *pass) {
  struct dirty_slices sets[SLABS_AT_ONCE];
  batch_begin(pass);
  unsigned count = superslab_take_dirty(cursor, pass->looks, sets, SLABS_AT_ONCE, &pass->young);
  for (unsigned i = 0; i < count; i++) give_slices(pass, sets[i]);
  flush(pass);
  for (unsigned i = 0; i < count; i++) superslab_put_clean(sets[i], pass->gone);
  batch_end();
  return count > 0;
}

static void look_at_slices(struct pass *pass) {
  struct dirty_cursor cursor = {0};
  while (look_at_some_slices(&cursor, pass)) continue;
}

/* Huge pages that were broken up, and are in use altogether again: put together, 570 us each. A fork waits for
 * one of them, so they are taken one by one; others have to fault meanwhile, so not all in one look. */
static void put_together(struct pass *pass) {
  enum { UNITS_A_LOOK = 128 };
  struct dirty_cursor cursor = {0};
  unsigned done = 0;
  if (option_value(SS_HUGEPAGE) != HUGEPAGE_THP || pass->looks == 0) return;
  for (bool found = true; found && done < UNITS_A_LOOK; done++) {
    batch_begin(pass);
    struct superslab *superslab = superslab_take_refilled(&cursor);
    found = superslab != NULL;
    if (found) superslab_join(superslab);
    batch_end();
  }
  if (done == UNITS_A_LOOK) pass->young += UNIT_BYTES; /* there may be more */
}

/* --- passes ------------------------------------------------------------------------------------------------ */

static size_t look_at_all(unsigned looks) {
  struct pass pass = {.looks = looks};
  lock_acquire(&engine_pass_lock);
  for (struct heap *heap = heap_first(); heap != NULL; heap = heap->next) look_at_heap(heap, &pass);
  look_at_slices(&pass);
  put_together(&pass);
  if (looks > 0) pass.young += unit_age();
  if (pass.split) pass.young += UNIT_BYTES;
  lock_release(&engine_pass_lock);
  return pass.young;
}

size_t release_pass(unsigned looks) {
  size_t young = look_at_all(looks);
  if (looks == 0) unit_trim();
  return young;
}

size_t release_purge(void) {
  struct unit_stats units_before, units_after;
  if (!heap_start()) return 0;
  unit_stats_get(&units_before);
  struct heap *mine = heap_if_any();
  if (mine != NULL) {
    remote_flush(mine);
    span_cache_flush(&mine->spans);
    slabs_drain_bins(mine);
  }
  look_at_all(0);
  /* Once more: a block that went home to another heap just now may have been that heap's last. */
  look_at_all(0);
  unit_trim();
  unit_stats_get(&units_after);
  uint64_t was = units_before.bytes_mapped, is = units_after.bytes_mapped;
  return was > is ? (size_t)(was - is) : 0;
}

/* --- without the helper --------------------------------------------------------------------------------------- */

/* What one call of the program does of it: 1 MiB is 60 us where the pages lie side by side, 300 us where they do not. Looking
 * alone is two cache misses a slab. */
#define RIDE_BYTES (1 * MIB)
enum { RIDE_BATCHES = 8 };

/* A program that goes on with little may find all it needs in its bins, and would never come here. So its heap is veiled while
 * memory waits, for so many calls of malloc a millisecond. With 10 ns each that is 0.1% of the time of a busy program, which
 * then comes by itself. */
enum { VEILED_CALLS_A_MS = 100, VEILED_MOST_MS = 10000 };

enum { RIDE_SPANS = CLASS_COUNT, RIDE_SLICES, RIDE_DONE };

static struct dirty_cursor ride_cursor; /* under engine_pass_lock */

/* One batch of the slabs of a class; false: there are no more. */
static bool ride_slabs(struct heap *heap, struct pass *pass) {
  struct class_slabs *slabs = &heap->classes[heap->ride_step];
  lock_acquire(&heap->lock);
  if (slabs->next_look == NULL) slabs->next_look = slabs->first;
  bool any = slabs->next_look != NULL;
  lock_release(&heap->lock);
  return any && look_at_slabs(heap, slabs, pass);
}

static void ride_step(struct heap *heap, struct pass *pass) {
  if (heap->ride_step < CLASS_COUNT) {
    if (ride_slabs(heap, pass)) return;
  } else if (heap->ride_step == RIDE_SPANS) {
    look_at_spans(heap, pass);
    ride_cursor = (struct dirty_cursor){0};
  } else if (look_at_some_slices(&ride_cursor, pass)) {
    return;
  }
  heap->ride_step++;
}

/* The next round begins then. */
static void set_round(struct heap *heap, uint64_t from_ms) {
  uint32_t wait = (uint32_t)option_value(WARM_POOL_DECAY_MS) / 2;
  heap->ride_step = 0;
  heap->ride_young = 0;
  heap->ride_from_ms = from_ms;
  heap->veiled_calls = VEILED_CALLS_A_MS * (wait < VEILED_MOST_MS ? wait : VEILED_MOST_MS);
}

/* The whole heap has been looked at, and what lies below the heaps. */
static void ride_end(struct heap *heap, uint64_t now) {
  heap->ride_young += unit_age();
  heap->rides = heap->ride_young > RELEASE_LEFT_OVER;
  set_round(heap, now + (uint64_t)option_value(WARM_POOL_DECAY_MS) / 2);
  if (heap->rides) return;
  lock_acquire(&heap->lock);
  engine_set_mark(heap);
  lock_release(&heap->lock);
  release_mark_below();
}

static void ride(struct heap *heap, uint64_t now) {
  struct pass pass = {.looks = LOOKS};
  for (unsigned i = 0;
       i < RIDE_BATCHES && pass.given < RIDE_BYTES && heap->ride_step < RIDE_DONE;) {
    unsigned before = heap->ride_step;
    ride_step(heap, &pass);
    if (heap->ride_step == before || before >= CLASS_COUNT)
      i++; /* a class without slabs is nothing */
  }
  if (pass.split) pass.young += UNIT_BYTES;
  heap->ride_young += pass.young;
  if (heap->ride_step == RIDE_DONE) ride_end(heap, now);
}

/* A busy program comes here hundreds of times in one tick of the clock; looking at it each time took 10% of the instructions of
 * `fragmentation`. Of calls within one tick the 1st, 2nd, 4th, 8th look at the clock, then every sixteenth. One that comes rarely looks each time. */
enum { RIDE_SKIPS_MOST = 15 }; /* a mask, too */

static uint64_t look_at_clock(struct heap *heap) {
  uint64_t now = os_clock_ms();
  bool busy = now == heap->ride_looked_ms;
  /* 0, 1, 3, 7, 15, 15 */
  heap->ride_skipped = busy ? (heap->ride_skipped * 2U + 1) & RIDE_SKIPS_MOST : 0;
  heap->ride_skips = heap->ride_skipped;
  heap->ride_looked_ms = now;
  return now;
}

void release_ride(void) {
  struct heap *mine = heap_if_any();
  if (mine == NULL) return;
  if (!mine->rides) set_round(mine, mine->ride_from_ms);
  mine->rides = true;
  uint64_t now = look_at_clock(mine);
  if (now >= mine->ride_from_ms && lock_try(&engine_pass_lock)) {
    ride(mine, now);
    lock_release(&engine_pass_lock);
  }
  heap_veil(mine, mine->rides && mine->veiled_calls > 0);
}
