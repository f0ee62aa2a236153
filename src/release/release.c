/* release.c - see release.h. */
#include "release/look.h"

#include "heap/absent.h"
#include "heap/engine.h"
#include "heap/named.h"
#include "heap/offers.h"
#include "heap/parked.h"
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

/* How much is in the engine's hands at once. A fork waits for as long as this takes, and a thread that needs a
 * slab meanwhile takes another: with 16, building and dropping trees peaked 2 MB higher. */
enum { SLABS_AT_ONCE = 4, RANGES_AT_ONCE = 64 };
/* Slabs looked at in one hold of a heap's lock, each a cache miss or two. */
enum { LOOKS_AT_ONCE = 32 };

/* Of the batch, under engine_batch_lock: not on the stack, since malloc_trim may be called with 2 KiB of one. */
static struct os_range ranges[RANGES_AT_ONCE];
static struct purge purges[SLABS_AT_ONCE];

/* --- giving back ------------------------------------------------------------------------------------------ */

static void flush(struct pass *pass) {
  /* Lazily, the pages stay for as long as the kernel has others. */
  bool lazily = pass->looks > 0 && option_value(SS_MEM_LEAN_DECOMMIT) == DECOMMIT_FREE;
  if (!lazily) {
    if (!os_decommit_all(ranges, pass->count)) pass->gone = false;
    else
      for (size_t i = 0; i < pass->count; i++) pass->gone_bytes += ranges[i].bytes;
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
  if (HAK_UNLIKELY(named_is_walked(heap))) {
    slabs->next_look = NULL;
    return 0;
  }
  for (unsigned looked = 0;
       slabs->next_look != NULL && looked < LOOKS_AT_ONCE && count < SLABS_AT_ONCE; looked++) {
    struct slab *slab = slabs->next_look;
    slabs->next_look = slab->next;
    if (slab->age == SLAB_CLEAN) continue;
    if (slab->age == SLAB_HUGE && pass->looks > 0 && superslab_is_whole(superslab_of(slab)))
      continue;
    if (slab->age < pass->looks && !pass->at_once) {
      slab->age++;
      pass->young += (size_t)slab_free_count(slab) * slab_block_size(slab);
      continue;
    }
    if (slab_is_empty(slab)) {
      slabs_give_up(heap, slab);
      continue;
    }
    slabs_unlist(heap, slab);
    slabs_count_free(heap, slab, -(int64_t)slab_free_count(slab));
    purge_begin(&purges[count++], slab);
  }
  return count;
}

static void end(struct heap *heap, struct purge *purge, bool gone, bool traded) {
  struct slab *slab = purge->slab;
  size_t before = slab_given_bytes(slab);
  purge_end(purge, gone);
  size_t after = slab_given_bytes(slab);
  heap->given_bytes += after - before;
  if (after > before) {
    heap->reopened_bytes = 0;
    heap->traded = traded;
  }
  slabs_count_free(heap, slab, purge->count);
  if (slab_is_empty(slab)) {
    slabs_give_up(heap, slab);
  } else if (slab_has_room(slab)) {
    slabs_enlist(heap, slab);
    /* Who looked for memory there meanwhile has found none. */
    if (offers_sleeps(heap)) offers_enter(heap, slab->size_class);
  }
}

bool look_at_slabs(struct heap *heap, struct class_slabs *slabs, struct pass *pass) {
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
    end(heap, &purges[i], pass->gone, pass->at_once);
    lock_release_in_turn(&heap->lock);
  }
  batch_end();
  superslab_settle();
  return more;
}

bool look_start(struct heap *heap, unsigned size_class) {
  struct class_slabs *slabs = &heap->classes[size_class];
  if (atomic_load_explicit(&slabs->count, memory_order_relaxed) == 0) return false;
  lock_acquire(&heap->lock);
  slabs->next_look = slabs->first;
  bool any = slabs->first != NULL;
  lock_release(&heap->lock);
  return any;
}

/* A piece of the class that is next; false: it has no slabs. The program may take the slab at which it would go on: then the rest of the class is
 * left to the next look, for two looks are to be half the decay time apart. */
static bool look_in_class(struct pass *pass) {
  struct class_slabs *slabs = &pass->heap->classes[pass->size_class];
  if (!pass->in_class && !look_start(pass->heap, pass->size_class)) {
    pass->size_class++;
    return false;
  }
  /* Purged slabs go to the list's end and are looked at again, once: hence the bound. */
  if (!pass->in_class)
    pass->left = atomic_load_explicit(&slabs->count, memory_order_relaxed) * 2 + LOOKS_AT_ONCE;
  bool more = look_at_slabs(pass->heap, slabs, pass);
  pass->in_class = more && pass->left > SLABS_AT_ONCE;
  if (pass->in_class) pass->left -= SLABS_AT_ONCE;
  else pass->size_class++;
  return true;
}

/* --- heaps ------------------------------------------------------------------------------------------------- */

/* Looks without a change of the class, as far as is counted. */
enum { QUIET_MOST = LOOKS + 1 };

/* Are its bins under its lock? */
static bool has_no_thread(const struct heap *heap) {
  uint8_t state = atomic_load_explicit(&heap->state, memory_order_relaxed);
  return state == HEAP_PARKED;
}

/* What the thread of a class at rest would do with its inbox, and the next thread with a parked heap's bins. A class rests by itself: its
 * thread may be busy in another. Once in a look, before look_tidy. False: there is nothing to tidy. */
static bool look_begin(struct heap *heap) {
  bool parked = has_no_thread(heap);
  bool sent = atomic_load_explicit(&heap->inbox_bytes, memory_order_relaxed) > 0;
  if (!parked && !sent) return false;
  if (heap_is_bare(heap)) return false;
  lock_acquire(&heap->lock);
  absent_prove(heap);
  for (unsigned c = 0; c < CLASS_COUNT; c++)
    if (heap->quiet[c] < QUIET_MOST) heap->quiet[c]++;
  lock_release(&heap->lock);
  superslab_settle();
  return true;
}

/* Puts some blocks of a class at rest into their slabs; false: none are left. */
static bool look_tidy(struct heap *heap, unsigned size_class, const struct pass *pass) {
  lock_acquire(&heap->lock);
  bool more = false;
  if (pass->looks == 0 || heap->quiet[size_class] > pass->looks) {
    bool parked = has_no_thread(heap);
    more = parked && heap->bins[size_class].head != NULL;
    if (more) slabs_put_parked_bin(heap, size_class, true);
    else more = slabs_put_batches(heap, size_class);
  }
  lock_release_in_turn(&heap->lock);
  superslab_settle();
  return more;
}

/* Once in a look, after look_tidy: counts what is left as young. */
static void look_end(struct heap *heap, struct pass *pass) {
  int64_t left = atomic_load_explicit(&heap->inbox_bytes, memory_order_relaxed);
  if (left > 0) pass->young += (size_t)left;
  lock_acquire(&heap->lock);
  if (has_no_thread(heap)) {
    size_t bytes = bins_bytes(heap);
    parked_count_bins(heap, bytes);
    pass->young += bytes;
  }
  lock_release(&heap->lock);
}

/* The heap's cached Large blocks. */
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

/* What threads have freed for others and not sent goes into the inboxes of its owners, which are looked at after this. Of a thread that is at
 * its slots just now the next look gets it. */
static void look_at_unsent(struct pass *pass) {
  const struct heap *mine = heap_if_any();
  bool any = false;
  if (!os_fences_threads()) return;
  for (struct heap *heap = heap_first(); heap != NULL; heap = heap->next)
    if (heap != mine) any |= slots_claim(heap);
  if (!any || !os_fence_threads()) return;
  for (struct heap *heap = heap_first(); heap != NULL; heap = heap->next)
    if (heap != mine) pass->young += slots_send_claimed(heap, pass->looks);
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

/* Of a few SuperSlabs; false: there are no more. */
static bool look_at_slices(struct pass *pass) {
  struct dirty_slices sets[SLABS_AT_ONCE];
  batch_begin(pass);
  unsigned count =
      superslab_take_dirty(&pass->slices, pass->looks, sets, SLABS_AT_ONCE, &pass->young);
  for (unsigned i = 0; i < count; i++) give_slices(pass, sets[i]);
  flush(pass);
  for (unsigned i = 0; i < count; i++) superslab_put_clean(sets[i], pass->gone);
  batch_end();
  return count > 0;
}

/* --- passes ------------------------------------------------------------------------------------------------ */

/* Goes to that heap, or the first after it in which anything may be; of empty ones only some, each a cache miss or two. */
static void go_to_heap(struct pass *pass, struct heap *heap) {
  for (unsigned i = 0; i < LOOKS_AT_ONCE && heap != NULL && heap_is_bare(heap); i++)
    heap = heap->next;
  pass->heap = heap;
  pass->size_class = 0;
  pass->in_class = false;
  pass->stage = heap == NULL ? PASS_SLICES : look_begin(heap) ? PASS_INBOXES : PASS_SLABS;
}

static void step_in_inboxes(struct pass *pass) {
  for (; pass->size_class < CLASS_COUNT; pass->size_class++)
    if (look_tidy(pass->heap, pass->size_class, pass)) return;
  look_end(pass->heap, pass);
  pass->size_class = 0;
  pass->stage = PASS_SLABS;
}

/* What is free from now on calls for the next look. */
static void set_mark(struct heap *heap) {
  lock_acquire(&heap->lock);
  engine_set_mark(heap);
  lock_release(&heap->lock);
}

static void step_in_slabs(struct pass *pass) {
  struct heap *heap = pass->heap;
  while (slabs_owned(heap) > 0 && pass->size_class < CLASS_COUNT)
    if (look_in_class(pass)) return;
  if (!heap_is_bare(heap)) {
    look_at_spans(heap, pass);
    set_mark(heap);
  }
  go_to_heap(pass, heap->next);
}

static void end_pass(struct pass *pass) {
  if (pass->looks > 0) pass->young += unit_age();
  if (pass->split) pass->young += UNIT_BYTES;
  release_mark_below();
  pass->stage = PASS_DONE;
}

bool pass_step(struct pass *pass) {
  if (pass->stage == PASS_BEGINS) {
    if (pass->fences) look_at_unsent(pass);
    go_to_heap(pass, heap_first());
  } else if (pass->stage == PASS_INBOXES) {
    step_in_inboxes(pass);
  } else if (pass->stage == PASS_SLABS) {
    step_in_slabs(pass);
  } else if (!look_at_slices(pass)) {
    end_pass(pass);
  }
  return pass->stage != PASS_DONE;
}

/* Is it to be broken off? Each piece takes a millisecond at most. */
static bool stops(const struct pass *pass) { return pass->goes_on != NULL && !pass->goes_on(); }

static struct pass look_at_all(unsigned looks, bool (*goes_on)(void)) {
  struct pass pass = {.looks = looks, .goes_on = goes_on, .fences = true};
  /* This thread is at work already, and a library that it tells of pages that go has come back. */
  if (lock_holder(&engine_pass_lock) == LOCK_MINE) return pass;
  lock_acquire(&engine_pass_lock);
  while (pass_step(&pass) && !stops(&pass)) continue;
  lock_release(&engine_pass_lock);
  return pass;
}

size_t release_pass(unsigned looks, bool (*goes_on)(void)) {
  struct pass pass = look_at_all(looks, goes_on);
  if (looks == 0) unit_trim();
  return pass.young;
}

void release_own_caches(void) {
  struct heap *mine = heap_if_any();
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
  size_t gone = look_at_all(0, NULL).gone_bytes;
  /* Once more: a block that went home to another heap just now may have been that heap's last. */
  gone += look_at_all(0, NULL).gone_bytes;
  unit_trim();
  unit_stats_get(&units_after);
  uint64_t was = units_before.bytes_mapped, is = units_after.bytes_mapped;
  /* What went within a unit that became empty and went as well counts twice, which is rare. */
  return gone + (was > is ? (size_t)(was - is) : 0);
}
