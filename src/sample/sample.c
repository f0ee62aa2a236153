/* sample.c - see sample.h. */
#include "sample/sample.h"

#include "heap/samples.h"
#include "os/probe.h"
#include "policy/options.h"
#include "sample/chance.h"
#include "sample/guarded.h"
#include "sample/records.h"
#include "stack/stack.h"

/* While nothing is sampled: a look, after so many bytes, whether that has changed. */
#define OFF_BYTES (64 * (int64_t)MIB)

static _Thread_local struct {
  int64_t rate; /* that the bytes left were drawn with; 0: not drawn yet, RATE_OFF */
  int64_t rate_of_sample;
  uint64_t random;
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
    rate = option_value(PROF_RATE) > 0 ? option_value(PROF_RATE) : RATE_OFF;
  return are_lost() || heap_calls_libc() ? RATE_OFF : rate;
}

static void draw(void) {
  mine.rate = rate_now();
  malloc_thread.sample_left =
      mine.rate > 0 ? chance_exponential(&mine.random, mine.rate) : OFF_BYTES;
}

/* A heap has one thread after the other. */
static uint64_t seed(const struct heap *heap) {
  uint64_t uses = heap != NULL ? heap->uses : 0;
  return chance_mix((uintptr_t)&mine + chance_mix(os_clock_ms() + chance_mix(uses)));
}

bool sample_is_due(size_t size) {
  if (HAK_UNLIKELY(mine.rate == 0)) { /* the thread's first allocation */
    mine.rate = RATE_OFF;
    malloc_thread.sample_left = OFF_BYTES; /* for what the next line allocates */
    const struct heap *heap = heap_of_thread();
    if (heap == NULL && heap_calls_libc()) return false;
    mine.random = seed(heap);
    draw();
    malloc_thread.sample_left -= (int64_t)size;
    if (malloc_thread.sample_left >= 0) return false;
  }
  mine.rate_of_sample = mine.rate;
  draw();
  return mine.rate_of_sample > 0;
}

/* --- what is kept ------------------------------------------------------------------------------------------ */

/* Under the lock: nobody else writes them. */
static void count(struct sample_totals *totals, const struct sample_record *record) {
  uint64_t weight = LOAD(record->weight);
  double blocks = (double)weight / (double)LOAD(record->size);
  STORE(totals->samples, LOAD(totals->samples) + 1);
  STORE(totals->blocks, LOAD(totals->blocks) + (uint64_t)(blocks * SAMPLE_BLOCK + 0.5));
  STORE(totals->bytes, LOAD(totals->bytes) + weight);
}

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

static void take_call(struct call *call) { call->depth = stack_take(call->addresses, DEPTH); }

static struct guarded_call guarded_call(const struct call *call) {
  return (struct guarded_call){call->addresses, call->depth};
}

/* Under the lock. `*weight`: the bytes that it stands for. */
static bool keep(const void *block, size_t size, unsigned size_class, const struct call *call,
                 uint64_t *weight) {
  struct sample_record record = {0};
  *weight = chance_weight(size, mine.rate_of_sample);
  STORE(record.size, size);
  STORE(record.weight, *weight);
  STORE(record.since_ms, os_clock_ms());
  STORE(record.heap, (uintptr_t)heap_if_any());
  STORE(record.size_class, size_class);
  STORE(record.stack, stack_enter(call->addresses, call->depth));
  if (!record_add((uintptr_t)block, &record)) {
    STORE(samples.dropped, LOAD(samples.dropped) + 1);
    return false;
  }
  if (LOAD(samples.samples) == 0) STORE(samples.since_ms, os_clock_ms());
  samples.version = SAMPLES_VERSION;
  STORE(samples.samples, LOAD(samples.samples) + 1);
  if (LOAD(record.stack) != 0) count(&stack_at(LOAD(record.stack))->allocated, &record);
  return true;
}

/* Under the lock. The class that it was counted in; NOT_THERE. */
static unsigned forget(const void *block) {
  struct sample_record record;
  if (!record_remove((uintptr_t)block, &record)) return NOT_THERE;
  probe_free(block);
  if (LOAD(record.stack) != 0) count(&stack_at(LOAD(record.stack))->freed, &record);
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

void *sample_allocate(size_t size, size_t alignment, unsigned size_class) {
  struct call call;
  uint64_t weight = 0;
  if (!heap_samples_start()) return NULL;
  take_call(&call);
  bool guards = guarded_is_due(size, alignment, &mine.random);
  lock_acquire(&heap_samples.lock);
  void *block = guards ? guarded_take(size, alignment, guarded_call(&call)) : NULL;
  if (block == NULL) block = heap_samples_take(class_of_slot(size, alignment));
  if (block != NULL && !keep(block, size, size_class, &call, &weight)) {
    if (guarded_has(block)) guarded_put(block, guarded_call(&call));
    else heap_samples_put(slab_head(map_slab(block)), block);
    block = NULL;
  }
  lock_release(&heap_samples.lock);
  superslab_settle();
  if (block != NULL) probe_alloc(block, size, weight);
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

unsigned sample_free_guarded(void *block) {
  struct call call;
  if (HAK_UNLIKELY(are_lost())) return CLASS_COUNT - 1; /* it stays where it is */
  take_call(&call);
  lock_acquire(&heap_samples.lock);
  unsigned size_class = forget(block);
  guarded_put(block, guarded_call(&call));
  lock_release(&heap_samples.lock);
  return size_class;
}

size_t sample_usable(const struct slab *slab, const void *block) {
  if (HAK_UNLIKELY(are_lost())) return slab_block_size(slab);
  lock_acquire(&heap_samples.lock);
  const struct sample_record *record = record_find((uintptr_t)block);
  size_t usable = record != NULL ? class_size(LOAD(record->size_class)) : 0;
  lock_release(&heap_samples.lock);
  return usable;
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
