/* spans.c - cached Large blocks: src/large under all schedules, against the purger and against a second free.
 *
 * Whatever the order: a span's pages are written by one at a time, who sees what the one before it wrote: the program that has the
 * block, the purger that gives them back, whoever gets the slices next. A span is released once. Of two threads that free a block
 * one is told so. What all caches have told adds up. Spans are given out and taken back here by stand-ins, under one lock, as
 * superslab.c does.
 */
#include <string.h>

#include "large/large.h"
#include "os/futex.h"
#include "os/lock.h"
#include "superslab/dirty.h"
#include "superslab/unit.h"
#include "world.h"

enum { SLICES = 4 };

static struct superslab unit;
static struct span_cache caches[2];
static unsigned pages[SLICES]; /* stands for what is in the pages of a slice */
static unsigned released[SLICES], holders[SLICES];
static unsigned freed[SCHEDULE_THREADS]; /* successes */
static _Atomic uint32_t next_step, purger_step;
static struct lock lock;
extern _Atomic size_t
    cached_bytes; /* span_cache.c's own, which a run that is cut short leaves as it is */

/* --- what src/large calls ----------------------------------------------------------------------------------- */

static void write_pages(struct slab *span) {
  for (unsigned i = 0; i < span->slices; i++) pages[span->index + i]++;
}

static void set_kind(struct slab *span, enum slab_kind kind) {
  atomic_store_explicit(&span->kind, (uint8_t)kind, memory_order_relaxed);
}

/* Others get the slices from here on. */
void span_release(struct slab *span) {
  lock_acquire(&lock);
  unsigned first = span->index, end = first + span->slices;
  SCHEDULE_CHECK(end <= SLICES && span->offset == 0);
  for (unsigned i = first; i < end; i++) {
    SCHEDULE_CHECK(released[i] == 0);
    released[i] = 1;
    pages[i]++;
    set_kind(&unit.slabs[i], KIND_FREE);
  }
  lock_release(&lock);
}

/* From the first slice on, if they are free. */
struct slab *span_acquire(unsigned slices, unsigned alignment, enum slab_kind kind,
                          enum span_pages wanted, unsigned counted_class, bool *zeroed) {
  (void)alignment, (void)wanted, (void)counted_class;
  *zeroed = false;
  lock_acquire(&lock);
  bool all_free = true;
  for (unsigned i = 0; i < slices; i++) all_free = all_free && released[i] != 0;
  for (unsigned i = 0; all_free && i < slices; i++) {
    released[i] = 0;
    unit.slabs[i].offset = (uint8_t)i;
    unit.slabs[i].slices = (uint8_t)slices;
    set_kind(&unit.slabs[i], kind);
  }
  lock_release(&lock);
  return all_free ? &unit.slabs[0] : NULL;
}

struct superslab *huge_acquire(size_t bytes, size_t alignment, bool *zeroed) {
  (void)bytes, (void)alignment, (void)zeroed;
  return NULL;
}
/* Whoever waits for the purger here goes on when that is done with a span, not after each of its steps. */
void os_yield(void) {
  uint32_t seen = atomic_load_explicit(&purger_step, memory_order_relaxed);
  if (atomic_load_explicit(&unit.slabs[1].kind, memory_order_relaxed) == KIND_DECOMMITTING)
    (void)futex_wait(&purger_step, seen, (const struct timespec *)NULL);
}
size_t unit_mapped_bytes(void) { return 0; }
bool superslab_is_busy(void) { return false; }
void unit_settle(void) {}
bool superslab_may_split(const struct superslab *superslab, unsigned slices, bool all) {
  (void)superslab, (void)slices, (void)all;
  return true;
}

/* --- steps of a thread ------------------------------------------------------------------------------------ */

static struct slab *span(unsigned number) { return &unit.slabs[number]; }

static bool free_span(unsigned cache, unsigned number) {
  bool done = large_free(&caches[cache], span(number));
  freed[schedule_thread()] += done;
  return done;
}

static void allocate(unsigned cache, unsigned slices) {
  bool zeroed;
  char *block = large_allocate(&caches[cache], slices * SLICE_BYTES, 1, &zeroed);
  if (block == NULL) return;
  struct slab *found = span((unsigned)((size_t)(block - unit.base) >> SLICE_SHIFT));
  SCHEDULE_CHECK(holders[found->index]++ == 0);
  write_pages(found);
  (void)atomic_load_explicit(&next_step, memory_order_relaxed); /* others may run here */
  SCHEDULE_CHECK(holders[found->index] == 1);
  holders[found->index]--;
}

/* release.c, scan_spans. */
static void give_back(unsigned cache) {
  struct slab *claimed[SPANS_CACHED];
  size_t unexpired = 0;
  unsigned count = span_cache_claim_old(&caches[cache], 0, claimed, &unexpired);
  for (unsigned i = 0; i < count; i++) {
    SCHEDULE_CHECK(holders[claimed[i]->index]++ == 0);
    write_pages(claimed[i]);
    (void)atomic_load_explicit(&next_step, memory_order_relaxed);
    SCHEDULE_CHECK(holders[claimed[i]->index] == 1);
    holders[claimed[i]->index]--;
    span_cache_decommitted(claimed[i]);
    atomic_fetch_add_explicit(&purger_step, 1, memory_order_relaxed);
    (void)futex_wake(&purger_step, 1);
  }
}

/* --- before and after -------------------------------------------------------------------------------------- */

static void start(void) {
  memset((void *)&unit, 0, sizeof unit);
  memset((void *)caches, 0, sizeof caches);
  memset((void *)&lock, 0, sizeof lock);
  atomic_store_explicit(&cached_bytes, 0, memory_order_relaxed);
  atomic_store_explicit(&purger_step, 0, memory_order_relaxed);
  memset(pages, 0, sizeof pages);
  memset(released, 0, sizeof released);
  memset(holders, 0, sizeof holders);
  memset(freed, 0, sizeof freed);
  unit.base = world_units[0];
  unit.huge_units = 0;
  for (unsigned i = 0; i < SLICES; i++) {
    unit.slabs[i].index = (uint8_t)i;
    unit.slabs[i].slices = 1;
    set_kind(&unit.slabs[i], KIND_LARGE);
  }
}

/* Its thread has put it into its cache before. */
static void start_cached(void) {
  start();
  SCHEDULE_CHECK(large_free(&caches[0], span(1)));
}

/* Slice 0 is free. The block in slice 1 is freed twice, which is the program's error; who acquires the slices writes to descriptors
 * that the late free reads. */
static void start_first_free(void) {
  start();
  released[0] = 1;
  set_kind(&unit.slabs[0], KIND_FREE);
  schedule_excuse_races(&unit, sizeof unit);
}

static void told_adds_up(void) {
  size_t told = 0;
  for (unsigned i = 0; i < 2; i++)
    told += atomic_load_explicit(&caches[i].told, memory_order_relaxed);
  SCHEDULE_CHECK(atomic_load_explicit(&cached_bytes, memory_order_relaxed) == told);
}

static void end(void) {
  told_adds_up();
  for (unsigned i = 0; i < SLICES; i++) SCHEDULE_CHECK(holders[i] == 0);
}

static void end_one_told(void) {
  SCHEDULE_CHECK(freed[0] + freed[1] == 1);
  end();
}

/* Nobody can tell a late free from one of the block that was made there meanwhile. */
static void end_third_has_its_span(void) {
  SCHEDULE_CHECK(freed[0] + freed[1] >= 1);
  if (freed[2] == 0) return;
  for (unsigned i = 0; i < 2; i++)
    SCHEDULE_CHECK(freed[0] + freed[1] == 2 ||
                   atomic_load_explicit(&unit.slabs[i].kind, memory_order_relaxed) == KIND_LARGE);
  SCHEDULE_CHECK(unit.slabs[1].offset == 1 && released[0] == 0 && released[1] == 0);
}

/* --- bodies ------------------------------------------------------------------------------------------------ */

static void free_and_take(void) {
  write_pages(span(1));
  (void)free_span(0, 1);
  allocate(0, 1);
}
static void take(void) { allocate(0, 1); }
/* Who frees it keeps nothing: a thread without a heap, or one of another node. */
static void take_and_free_far(void) {
  bool zeroed;
  if (large_allocate(&caches[0], SLICE_BYTES, 1, &zeroed) == NULL) return;
  write_pages(span(1));
  SCHEDULE_CHECK(large_free(NULL, span(1)));
}
static void flush(void) { (void)span_cache_flush(&caches[0]); }
static void purger(void) { give_back(0); }
static void purger_twice(void) {
  give_back(0);
  give_back(0);
}
static void free_1(void) { (void)free_span((unsigned)schedule_thread(), 1); }
static void free_1_uncached(void) {
  bool seen = atomic_load_explicit(&span(1)->kind, memory_order_relaxed) == KIND_LARGE;
  if (seen && span(1)->offset == 0) freed[schedule_thread()] += large_free(NULL, span(1));
}
static void acquire_two(void) {
  bool zeroed;
  freed[2] = span_acquire(2, 1, KIND_LARGE, PAGES_SMALL, 0, &zeroed) != NULL;
}
static void free_2_and_3(void) {
  (void)free_span(1, 2);
  (void)free_span(1, 3);
}

static const struct schedule_case cases[] = {
    {.name = "free_take_give",
     .start = start,
     .body = {free_and_take, purger},
     .end = end,
     .stale = 1},
    {.name = "take_and_give",
     .start = start_cached,
     .body = {take, purger_twice},
     .end = end,
     .stale = 2},
    {.name = "take_free_far_and_give",
     .start = start_cached,
     .body = {take_and_free_far, purger},
     .end = end},
    {.name = "flush_and_give", .start = start_cached, .body = {flush, purger}, .end = end},
    {.name = "two_free", .start = start, .body = {free_1, free_1}, .end = end_one_told, .stale = 2},
    {.name = "two_caches", .start = start, .body = {free_1, free_2_and_3}, .end = end, .stale = 1},
    {.name = "two_free_third_acquires",
     .start = start_first_free,
     .body = {free_1_uncached, free_1_uncached, acquire_two},
     .end = end_third_has_its_span},
    {.name = "take_give_and_free_again",
     .start = start_cached,
     .body = {take, purger_twice, free_2_and_3},
     .end = end,
     .stale = 1,
     .slow = true},
    {.name = NULL}};

static const struct schedule_mutant mutants[] = {
    {"free_take_give", "large_free", "compare", FAULT_RELAXED, "race"},
    {"free_take_give", "span_cache_claim_old", "compare", FAULT_RELAXED, "race"},
    {"take_and_give", "claim", "compare", FAULT_RELAXED, "race"},
    {"take_and_give", "span_cache_decommitted", "store", FAULT_RELAXED, "race"},
    {"take_and_give", "span_cache_claim_old", "compare", FAULT_TORN, "race"},
    {"take_and_give", "claim", "compare", FAULT_TORN, "race"},
    {"flush_and_give", "claim", "compare", FAULT_DROPPED, "race"},
    {"two_free", "large_free", "compare", FAULT_TORN, "not so: freed"},
    {"two_caches", "tell", "add", FAULT_TORN, "== told"},
    {.in_case = NULL}};

int main(int count, char **arguments) { return schedule_main(count, arguments, cases, mutants); }
