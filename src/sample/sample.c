/* sample.c - see sample.h. */
#include "sample/sample.h"

#include "heap/purger.h"
#include "heap/samples.h"
#include "os/file.h"
#include "os/probe.h"
#include "policy/options.h"
#include "sample/chance.h"
#include "sample/guarded.h"
#include "sample/records.h"
#include "sample/sums.h"
#include "stack/stack.h"

/* While nothing is sampled: a look, after so many bytes, whether that has changed. */
#define OFF_BYTES (64 * (int64_t)MIB)

static _Thread_local struct {
  int64_t rate; /* that the bytes left were drawn with; 0: not drawn yet, RATE_OFF */
  int64_t rate_of_sample;
  uint64_t random;
  struct sample_pace pace;
} mine __attribute__((tls_model("initial-exec")));

enum { RATE_OFF = -1 };

/* --- when ------------------------------------------------------------------------------------------------- */

/* In a fork's child the tables may be cut in half. */
static bool are_lost(void) {
  if (HAK_UNLIKELY(heap_samples_lost)) STORE(samples.lost, 1);
  return heap_samples_lost;
}

/* Written by tools alone; the pages of programs that take no sample stay as they are. */
static int64_t rate_now(void) {
  int64_t rate = LOAD(samples.rate);
  if (HAK_LIKELY(rate == 0))
    rate = option_value(PROF_RATE) > 0 ? (int64_t)option_value(PROF_RATE) << mine.pace.doublings
                                       : RATE_OFF;
  return are_lost() || heap_calls_libc() ? RATE_OFF : rate;
}

/* A sample's 2,000 instructions count where a thread allocates many gigabytes a second: blocks that nobody touches, the same few for
 * ever. More samples tell nothing new there. WINDOW_MS: some ticks of the clock that is read. 64 times: so that a thread that is slow again is soon
 * seen as before. */
enum { WINDOW_MS = 16, DOUBLINGS_MOST = 6 };

static uint32_t most_in_window(void) {
  return (uint32_t)option_value(PROF_MOST) * WINDOW_MS / 1000;
}

/* Begins a new window when this one is over. */
static void look_at_clock(struct sample_pace *pace) {
  uint64_t now = os_clock_ms(), elapsed = now - pace->window_ms;
  if (elapsed < WINDOW_MS) return;
  uint64_t in_one = pace->in_window * (uint64_t)WINDOW_MS / elapsed;
  for (; pace->doublings > 0 && 2 * in_one <= most_in_window(); in_one *= 2) pace->doublings--;
  pace->window_ms = now;
  pace->in_window = 0;
}

static void take_one(struct sample_pace *pace) {
  look_at_clock(pace);
  if (++pace->in_window <= most_in_window() || pace->doublings == DOUBLINGS_MOST) return;
  pace->in_window /= 2;
  pace->doublings++;
}

/* After each sample. A rate that a tool has set is kept: somebody looks. */
static void pace(void) {
  struct thread_cache *cache = cache_if_any();
  if (option_value(PROF_MOST) == 0 || LOAD(samples.rate) != 0) mine.pace.doublings = 0;
  else take_one(&mine.pace);
  if (cache != NULL) cache->pace = mine.pace;
}

/* Threads that live for a millisecond, one after the other, are limited together. */
static void go_on_with_pace(const struct thread_cache *cache) {
  if (cache == NULL) return;
  mine.pace = cache->pace;
  if (mine.pace.doublings > 0) look_at_clock(&mine.pace);
}

static void draw(void) {
  mine.rate = rate_now();
  malloc_thread.sample_left =
      mine.rate > 0 ? chance_exponential(&mine.random, mine.rate) : OFF_BYTES;
  malloc_thread.sample_rest = 0;
}

/* A heap has one thread after the other. */
static uint64_t seed(const struct thread_cache *cache) {
  uint64_t uses = cache != NULL ? cache->uses : 0;
  return chance_mix((uintptr_t)&mine + chance_mix(os_clock_ms() + chance_mix(uses)));
}

/* The distribution has no memory: a new number at a moment that allocations do not choose changes no probability. */
static bool crosses_anew(size_t size) {
  draw();
  return sample_crosses(size);
}

/* After heap_call_soon: of the bytes that were drawn, these are left. */
static bool takes_rest(void) {
  malloc_thread.sample_left += malloc_thread.sample_rest;
  malloc_thread.sample_rest = 0;
  return malloc_thread.sample_left >= 0;
}

bool sample_is_due(size_t size) {
  if (HAK_UNLIKELY(mine.rate == 0)) { /* the thread's first allocation */
    mine.rate = RATE_OFF;
    malloc_thread.sample_left = OFF_BYTES; /* for what the next line allocates */
    const struct thread_cache *cache = cache_of_thread();
    if (cache == NULL && heap_calls_libc()) return false;
    mine.random = seed(cache);
    go_on_with_pace(cache);
    if (!crosses_anew(size)) return false;
  } else if (sample_has_request()) {
    if (!crosses_anew(size)) return false;
  } else if (takes_rest()) {
    return false;
  }
  mine.rate_of_sample = mine.rate;
  if (mine.rate > 0) pace();
  draw();
  return mine.rate_of_sample > 0;
}

/* --- what is kept ------------------------------------------------------------------------------------------ */

enum { NOT_THERE = CLASS_COUNT };

/* With musl a thread's own stack may have 2 KiB. */
#if defined(__GLIBC__)
enum { DEPTH = SAMPLE_DEPTH_MOST };
#else
enum { DEPTH = 16 };
#endif

/* Taken before the lock: it may take system calls. */
struct call {
  uintptr_t addresses[DEPTH];
  unsigned depth;
};

static void take_call(struct call *call) {
  bool tables_leave = purger_reads_files() && os_files_are_safe();
  call->depth = stack_take(call->addresses, DEPTH, tables_leave);
}

static struct guarded_call guarded_call(const struct call *call) {
  return (struct guarded_call){call->addresses, call->depth};
}

static bool add_record(const void *block, const struct sample_record *record) {
  if (record_add((uintptr_t)block, record)) return true;
  STORE(samples.dropped, LOAD(samples.dropped) + 1);
  return false;
}

/* Under the lock. `*weight`: the bytes that it stands for. */
static bool keep(const void *block, size_t size, unsigned size_class, const struct call *call,
                 uint64_t *weight) {
  struct sample_record record = {0};
  record.exposure = (double)size / (double)mine.rate_of_sample;
  *weight = chance_weight(size, record.exposure);
  STORE(record.size, size);
  STORE(record.weight, *weight);
  STORE(record.since_ms, os_clock_ms());
  struct thread_cache *cache = cache_if_any();
  STORE(record.heap, cache != NULL ? (uintptr_t)arena_beside(cache) : 0);
  STORE(record.size_class, size_class);
  STORE(record.stack, stack_enter(call->addresses, call->depth));
  if (!add_record(block, &record)) return false;
  if (LOAD(samples.samples) == 0) STORE(samples.since_ms, os_clock_ms());
  samples.version = SAMPLES_VERSION;
  STORE(samples.samples, LOAD(samples.samples) + 1);
  sums_add(&record);
  return true;
}

/* Under the lock. The class that it was counted in; NOT_THERE. */
static unsigned forget(const void *block) {
  struct sample_record record;
  if (!record_remove((uintptr_t)block, &record)) return NOT_THERE;
  probe_free(block);
  sums_free(&record);
  return LOAD(record.size_class);
}

/* --- small blocks ------------------------------------------------------------------------------------------ */

/* Of at most SMALL_MAX bytes. Few sizes, so that few pages hold all samples of a small program: with a sample in 2 MiB, slots of
 * 1 KiB are 0.05% of the memory at most. Above a page twice as many, for there the slots count. */
static unsigned class_of_slot(size_t size, size_t alignment) {
  enum { LEAST = 1024, STEP = 4, STEP_ABOVE = 2 };
  size_t slot = LEAST;
  while (slot < size || slot < alignment) slot *= slot < 4 * KIB ? STEP : STEP_ABOVE;
  return class_for(slot);
}

void *sample_allocate(size_t size, size_t alignment, unsigned size_class, bool *zeroed) {
  struct call call;
  uint64_t weight = 0;
  if (!heap_samples_start()) return NULL;
  take_call(&call);
  void *block = NULL;
  if (guarded_is_due(size, alignment, &mine.random))
    block = guarded_take(size, alignment, guarded_call(&call));
  bool guarded = block != NULL;
  lock_acquire(&heap_samples.lock);
  if (!guarded) block = heap_samples_take(class_of_slot(size, alignment), zeroed);
  bool kept = block != NULL && keep(block, size, size_class, &call, &weight);
  if (block != NULL && !kept && !guarded) heap_samples_put(slab_head(map_slab(block)), block);
  lock_release(&heap_samples.lock);
  superslab_settle();
  if (guarded && !kept) guarded_put(block, guarded_call(&call));
  if (!kept) return NULL;
  probe_alloc(block, size, weight);
  return block;
}

unsigned sample_free(struct slab *slab, void *block) {
  if (HAK_UNLIKELY(are_lost())) return slab->size_class; /* it stays where it is */
  lock_acquire(&heap_samples.lock);
  unsigned size_class = forget(block);
  if (size_class != NOT_THERE) heap_samples_put(slab, block);
  lock_release(&heap_samples.lock);
  superslab_settle();
  return size_class;
}

unsigned sample_free_guarded(void *block, size_t size) {
  struct call call;
  if (HAK_UNLIKELY(are_lost())) return class_for(size); /* it stays where it is */
  take_call(&call);
  lock_acquire(&heap_samples.lock);
  unsigned size_class = forget(block);
  lock_release(&heap_samples.lock);
  guarded_put(block, guarded_call(&call));
  return size_class;
}

/* Under the lock, of which it lets go. */
static size_t usable_then_release(const void *block) {
  const struct sample_record *record = record_find((uintptr_t)block);
  size_t usable = record != NULL ? class_size(LOAD(record->size_class)) : 0;
  lock_release(&heap_samples.lock);
  return usable;
}

size_t sample_usable(const struct slab *slab, const void *block) {
  if (HAK_UNLIKELY(are_lost())) return slab_block_size(slab);
  lock_acquire(&heap_samples.lock);
  return usable_then_release(block);
}

size_t sample_usable_at_once(const struct slab *slab, const void *block) {
  if (are_lost() || !lock_try(&heap_samples.lock)) return slab_block_size(slab);
  return usable_then_release(block);
}

/* --- Large and Huge blocks ------------------------------------------------------------------------------------ */

void sample_mark(struct slab *descriptor, const void *block, size_t size) {
  struct call call;
  uint64_t weight = 0;
  if (!heap_samples_start()) return;
  take_call(&call);
  lock_acquire(&heap_samples.lock);
  bool kept = keep(block, size, CLASS_COUNT, &call, &weight);
  if (kept) STORE(descriptor->sampled, 1);
  lock_release(&heap_samples.lock);
  if (kept) probe_alloc(block, size, weight);
}

void sample_unmark(struct slab *descriptor, const void *block) {
  lock_acquire(&heap_samples.lock);
  STORE(descriptor->sampled, 0);
  if (!are_lost()) (void)forget(block);
  lock_release(&heap_samples.lock);
}

bool sample_lift(struct slab *descriptor, const void *block, struct sample_record *record) {
  lock_acquire(&heap_samples.lock);
  STORE(descriptor->sampled, 0);
  bool lifted = !are_lost() && record_remove((uintptr_t)block, record);
  if (lifted) probe_free(block);
  lock_release(&heap_samples.lock);
  return lifted;
}

/* Where nothing is sampled now, the growth adds no chance. */
static void grow(struct sample_record *record, size_t size) {
  int64_t rate = mine.rate != 0 ? mine.rate : rate_now();
  if (rate > 0) record->exposure += (double)(size - LOAD(record->size)) / (double)rate;
  STORE(record->size, size);
  STORE(record->weight, chance_weight(size, record->exposure));
}

/* Blocks that are appended to grow by little and often: a record may stay behind by so small a part of its size. */
enum { BEHIND_PART = 128 };

void sample_grow(const void *block, size_t size) {
  if (are_lost()) return;
  lock_acquire(&heap_samples.lock);
  struct sample_record *record = record_find((uintptr_t)block);
  if (record != NULL && LOAD(record->size) + size / BEHIND_PART < size) {
    struct sample_record now = *record;
    grow(&now, size);
    sums_grow(record, &now);
    record_resize(record, &now);
  }
  lock_release(&heap_samples.lock);
}

void sample_put_back(struct slab *descriptor, const void *block, size_t size,
                     struct sample_record *record) {
  if (are_lost()) return;
  struct sample_record before = *record;
  grow(record, size);
  lock_acquire(&heap_samples.lock);
  bool kept = add_record(block, record);
  if (kept) STORE(descriptor->sampled, 1);
  if (kept) sums_grow(&before, record);
  else sums_free(&before);
  lock_release(&heap_samples.lock);
  if (kept) probe_alloc(block, size, LOAD(record->weight));
}

void sample_drop(const struct sample_record *record) {
  if (are_lost()) return;
  lock_acquire(&heap_samples.lock);
  sums_free(record);
  lock_release(&heap_samples.lock);
}
