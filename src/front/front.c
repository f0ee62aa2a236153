/* front.c - the slow halves of malloc and free, and the operations that have no fast path. */
#include "front/front.h"

#include <errno.h>
#include <string.h>

#include "front/empty.h"
#include "front/full.h"
#include "front/sampled.h"
#include "heap/named.h"
#include "heap/refill.h"
#include "heap/remote.h"
#include "heap/shared_tick.h"
#include "heap/slots.h"
#include "observe/report.h"
#include "os/libc.h"
#include "policy/options.h"
#include "release/background.h"
#include "release/beat.h"
#include "release/box.h"
#include "release/limit.h"
#include "release/marks.h"
#include "release/release.h"

HAK_COLD void *front_refuse(void) {
  errno = ENOMEM;
  return NULL;
}

HAK_COLD void *front_no_memory(void) {
  box_write_failure();
  return front_refuse();
}

/* A thread that has a heap never does. Reads the options, if nobody did. */
static bool calls_libc(void) { return cache_of_thread() == NULL && heap_calls_libc(); }

/* For operations that may have no heap. */
static void count(struct thread_cache *cache, unsigned counted_class, enum counter which) {
  if (cache != NULL) cache_count(cache, counted_class, which, 1);
  else if (option_counting()) counters_add_shared(counted_class, which);
}

/* --- small blocks ------------------------------------------------------------------------------------- */

static void *pop_or_refill(struct thread_cache *cache, unsigned size_class, bool any_larger,
                           bool *zeroed) {
  void *block = bin_pop(&cache->bins[size_class]);
  enum counter way = COUNT_FAST;
  if (block == NULL) {
    way = COUNT_SLOW;
    block = refill(cache, size_class, any_larger && cache->counters == NULL, zeroed);
    release_answer(cache);
    limit_check(0);
    shared_tick(true);
  }
  if (HAK_LIKELY(block != NULL)) cache_count(cache, size_class, way, 1);
  return block;
}

/* NULL: there is no memory for a block, or for the thread's heap. */
static void *try_class(unsigned size_class, bool any_larger, bool *zeroed) {
  struct thread_cache *own = cache_of_thread(), *cache = own != NULL ? own : cache_borrow();
  if (HAK_UNLIKELY(cache == NULL)) return NULL;
  if (HAK_LIKELY(own != NULL)) release_count_call();
  void *block = pop_or_refill(cache, size_class, any_larger, zeroed);
  if (HAK_LIKELY(own != NULL)) release_be_ready(own);
  else cache_return(cache);
  return block;
}

/* `zeroed`: see refill. */
static void *allocate_class(unsigned size_class, bool any_larger, bool *zeroed) {
  void *block = try_class(size_class, any_larger, zeroed);
  /* Refused: bins and parked heaps may hold empty slabs that only a purge finds. */
  if (HAK_UNLIKELY(block == NULL) && release_for_refused())
    block = try_class(size_class, any_larger, zeroed);
  if (HAK_UNLIKELY(block == NULL)) return front_no_memory();
  /* Lent, it is of another class; untouched, it was in no list. */
  if (zeroed == NULL || !*zeroed) guard_allocated(block, map_slab(block)->size_class);
  return block;
}

#if HAK_HARDENED
void *front_allocate_empty(void) {
  void *block = empty_take();
  if (block != NULL) count(cache_if_any(), class_for(0), COUNT_SLOW);
  return block;
}
#endif

HAK_NOINLINE void *front_allocate_slow(size_t size) {
  if (HAK_UNLIKELY(calls_libc())) return libc_malloc(size);
  if (size == 0 && guard_is_on()) {
    void *empty = front_allocate_empty();
    if (HAK_LIKELY(empty != NULL)) return empty;
  }
  return allocate_class(class_for(size), true, NULL);
}

/* --- large blocks --------------------------------------------------------------------------------------- */

static struct span_cache *span_cache_of(struct thread_cache *cache) {
  return cache != NULL ? &cache->spans : NULL;
}

static void *allocate_large(size_t size, size_t alignment, bool *zeroed) {
  if (size > PTRDIFF_MAX) return front_refuse();
  struct thread_cache *cache = cache_of_thread();
  struct span_cache *spans = span_cache_of(cache);
  void *block = large_allocate(spans, size, alignment, zeroed);
  if (HAK_UNLIKELY(block == NULL) && large_could_fit(size, alignment) && release_for_refused()) {
    block = large_allocate(spans, size, alignment, zeroed);
    if (block == NULL) block = large_allocate_left(size, alignment, zeroed);
  }
  if (HAK_UNLIKELY(block == NULL)) return front_no_memory();
  bool huge = large_is_huge(size, alignment);
  count(cache, huge ? COUNTED_HUGE : COUNTED_LARGE, COUNT_SLOW);
  if (huge) unit_take(size);
  limit_check(size);
  if (cache != NULL) release_get_ready(false);
  shared_tick(true);
  return block;
}

/* Of sizes above TABLE_MAX, up to SMALL_MAX. */
HAK_INLINE void *allocate_mid(size_t size) {
  unsigned size_class = class_for_mid(size);
  void *block = bin_pop(&front_malloc_cache(FRONT_ANY)->bins[size_class]);
  if (HAK_UNLIKELY(block == NULL)) return front_allocate_slow(size);
  guard_allocated(block, size_class);
  return block;
}

static HAK_NOINLINE void *allocate_above_mid(size_t size) {
  bool zeroed;
  if (HAK_UNLIKELY(calls_libc())) return libc_malloc(size);
  return allocate_large(size, BLOCK_ALIGNMENT, &zeroed);
}

static void *allocate_sample(size_t alignment, size_t size, bool *zeroed);

HAK_NOINLINE void *front_allocate_beyond(size_t size) {
  if (HAK_LIKELY(size <= SMALL_MAX))
    return sample_crosses(size) ? front_allocate_sample(size) : allocate_mid(size);
  return crosses(size) ? front_allocate_sample(size) : allocate_above_mid(size);
}

/* From here on calloc may get untouched memory as it is; smaller blocks share their pages with others. */
#define UNTOUCHED_FROM ((size_t)4 * KIB)

static void *allocate_zeroed(size_t size, bool *zeroed) {
  void *block =
      size <= SMALL_MAX ? bin_pop(&front_malloc_cache(FRONT_ANY)->bins[class_for(size)]) : NULL;
  if (block != NULL) {
    guard_allocated(block, class_for(size));
    return block;
  }
  if (HAK_UNLIKELY(calls_libc())) {
    *zeroed = true;
    return libc_calloc(1, size);
  }
  return size <= SMALL_MAX ? allocate_class(class_for(size), true, zeroed)
                           : allocate_large(size, BLOCK_ALIGNMENT, zeroed);
}

void *front_allocate_zeroed(size_t size) {
  bool zeroed = false;
  void *block = size < UNTOUCHED_FROM ? front_allocate(size)
                : crosses(size)       ? allocate_sample(BLOCK_ALIGNMENT, size, &zeroed)
                                      : allocate_zeroed(size, &zeroed);
  /* The hardened variant's free blocks are zeros. */
  if (block != NULL && !zeroed && !guard_is_zero(block)) memset(block, 0, size);
  return block;
}

static void *allocate_aligned_slow(size_t alignment, size_t size, unsigned size_class) {
  if (HAK_UNLIKELY(calls_libc())) return libc_memalign(alignment, size);
  bool zeroed;
  if (size_class == CLASS_COUNT) return allocate_large(size, alignment, &zeroed);
  refill_note_aligned(size_class, size);
  return allocate_class(size_class, false, NULL);
}

/* At a multiple of more than BLOCK_ALIGNMENT. */
static void *allocate_aligned(size_t alignment, size_t size) {
  unsigned size_class = class_for_aligned(size, alignment);
  void *block =
      size_class < CLASS_COUNT ? bin_pop(&front_malloc_cache(FRONT_ANY)->bins[size_class]) : NULL;
  if (HAK_UNLIKELY(block == NULL)) return allocate_aligned_slow(alignment, size, size_class);
  guard_allocated(block, size_class);
  return block;
}

void *front_allocate_aligned(size_t alignment, size_t size) {
  if (alignment <= BLOCK_ALIGNMENT) return front_allocate(size);
  if (crosses(size)) return allocate_sample(alignment, size, NULL);
  return allocate_aligned(alignment, size);
}

/* --- samples -------------------------------------------------------------------------------------------------- */

static void *allocate_ordinary(size_t alignment, size_t size, bool *zeroed) {
  if (alignment > BLOCK_ALIGNMENT) return allocate_aligned(alignment, size);
  if (zeroed != NULL) return allocate_zeroed(size, zeroed);
  if (size > SMALL_MAX) return allocate_above_mid(size);
  return size > TABLE_MAX ? allocate_mid(size) : front_allocate_counted(size);
}

/* Of a Large or Huge block that is freed: it is no sample any more, and in no named heap. */
static void unmark(const struct block *block, void *pointer) {
  struct slab *descriptor = descriptor_of(block);
  if (sample_has(descriptor)) sample_unmark(descriptor, pointer);
  struct hak_heap *named = named_of_span(descriptor);
  if (HAK_UNLIKELY(named != NULL)) named_forget(named, descriptor, block->usable);
}

/* `zeroed`: NULL, or where calloc is told that the block reads as zeros. */
static HAK_COLD void *make_sample(size_t alignment, size_t size, bool *zeroed) {
  unsigned size_class = class_for_aligned(size, alignment);
  void *block =
      size_class != CLASS_COUNT ? sample_allocate(size, alignment, size_class, zeroed) : NULL;
  if (block != NULL) {
    count(cache_if_any(), size_class, COUNT_SLOW);
    return block;
  }
  if (zeroed != NULL) *zeroed = false; /* that block went back */
  block = allocate_ordinary(alignment, size, zeroed);
  if (block != NULL) mark_sample(block, size);
  return block;
}

static HAK_COLD void *allocate_sample(size_t alignment, size_t size, bool *zeroed) {
  return is_sample(size) ? make_sample(alignment, size, zeroed)
                         : allocate_ordinary(alignment, size, zeroed);
}

void *front_allocate_as_sample(size_t size) { return make_sample(BLOCK_ALIGNMENT, size, NULL); }

void *front_allocate_unsampled(size_t size) {
  return allocate_ordinary(BLOCK_ALIGNMENT, size, NULL);
}

HAK_COLD void *front_allocate_sample(size_t size) {
  return allocate_sample(BLOCK_ALIGNMENT, size, NULL);
}

/* --- free ---------------------------------------------------------------------------------------------- */

/* What runs over is half of a bin. */
static void count_overflow(const struct thread_cache *cache, const struct bin *bin) {
  size_t size = class_size((unsigned)(bin - cache->bins));
  release_count_free(size, (bin->capacity / 2 + 1) * size);
}

/* The thread has no heap yet or any more, or one that counts. */
static HAK_NOINLINE void free_by_heap_of_thread(struct inbox *inbox, void *block) {
  struct thread_cache *cache = cache_of_thread();
  size_t place = cache != NULL ? cache_place(cache, inbox) : SIZE_MAX;
  if (!cache_keeps(place)) {
    count(cache, map_slab(block)->size_class, COUNT_FREE_REMOTE);
    if (cache == NULL) { /* past the thread's end, or no memory for a heap */
      remote_free_now(inbox, block);
      return;
    }
    remote_free(cache, inbox, block);
  } else {
    struct bin *own = cache_bin_at(cache, place);
    cache_count(cache, (unsigned)(own - cache->bins), COUNT_FREE_LOCAL, 1);
    if (!bin_push(own, block)) return;
    bin_overflow(cache, own);
    count_overflow(cache, own);
  }
  release_answer(cache);
}

HAK_NOINLINE void front_free_overflow(size_t place) {
  struct thread_cache *cache = thread_cache;
  struct bin *own = cache_bin_at(cache, place);
  void *passed = bin_pass_on(cache, own);
  if (passed != NULL) {
    front_free_elsewhere(passed, place);
    return;
  }
  bin_overflow(cache, own);
  release_answer(thread_cache);
  count_overflow(cache, own);
  shared_tick(true);
}

/* A function of its own, jumped to: otherwise each block that only goes into its slot pays for saved registers. `count` was gathered: the purger
 * may have emptied the slot by now. */
static HAK_NOINLINE void send_full(struct outgoing *slot, size_t count) {
  size_t size = class_size(slot->size_class);
  remote_send_full(thread_cache, slot);
  release_answer(thread_cache);
  release_count_free(size, count * size);
}

/* Between slots_enter and slots_leave, which it calls. */
HAK_INLINE void gather(struct thread_cache *cache, struct outgoing *slot, void *block) {
  unsigned gathered = remote_gather(slot, block);
  slots_leave(cache);
  if (HAK_UNLIKELY(gathered >= slot->limit)) send_full(slot, gathered);
}

HAK_NOINLINE void front_free_elsewhere(void *block, size_t place) {
  struct thread_cache *cache = thread_cache;
  struct inbox *inbox = cache_inbox_at(cache, place);
  /* Without a heap of its own a thread is here with cache_none, which gathers nothing. */
  if (HAK_LIKELY(inbox != NULL)) {
    struct outgoing *slot = remote_slot(cache, inbox);
    if (HAK_LIKELY(slot->owner == inbox) && HAK_LIKELY(slots_enter(cache))) {
      gather(cache, slot, block);
      return;
    }
  }
  front_free_slow(block);
}

#if HAK_HARDENED
/* Most blocks that come here are another thread's, and their owner has a slot. It knows their class, so nothing is read of their slab. The class is read
 * once the slots are entered: a handler of signals may have interrupted its thread while the slot got its owner. */
HAK_NOINLINE void guard_free_near(void *block, const struct inbox *inbox) {
  struct thread_cache *cache = front_free_cache(FRONT_FAST);
  struct outgoing *slot = remote_slot(cache, inbox);
  if (HAK_LIKELY(slot->owner == inbox) && HAK_LIKELY(inbox != NULL) &&
      HAK_LIKELY(slots_enter(cache))) {
    if (HAK_LIKELY(guard_freed_near(block, slot->size_class * sizeof(struct link_class)))) {
      gather(cache, slot, block);
      return;
    }
    slots_leave(cache);
  }
  full_or_far(block, inbox);
}

HAK_NOINLINE void guard_free_far(void *block, const struct inbox *inbox) {
  if (HAK_UNLIKELY(inbox == NULL)) {
    front_free_slow(block);
    return;
  }
  size_t place = cache_place(thread_cache, inbox);
  unsigned size_class = guard_class_of(block, inbox);
  const struct link_class *of = &link_classes[size_class];
  _Atomic uint8_t *state;
  if (HAK_UNLIKELY(!guard_live(of, block, &state))) guard_refuse(block);
  if (HAK_LIKELY(of->steps3 >= 0)) link_clear_near(of, block);
  else link_zero(block, link_zeros_end[size_class]); /* no call: no register is saved */
  guard_set_free(state, size_class);
  if (HAK_LIKELY(!cache_keeps(place))) front_free_elsewhere(block, place);
  else if (bin_push_at(thread_cache, place, block)) front_free_overflow(place);
}
#endif

HAK_NOINLINE void front_free_slow(void *pointer) {
  if (pointer == NULL) return;
  if (HAK_LIKELY(map_has_entry(pointer))) {
    struct inbox *inbox = map_inbox(pointer);
    if (HAK_LIKELY(inbox != NULL)) {
      /* A thread whose heap does not count is here because the block is another heap's. */
      if (HAK_LIKELY(thread_cache != &cache_none)) {
        remote_free(thread_cache, inbox, pointer);
        release_answer(thread_cache);
      } else {
        free_by_heap_of_thread(inbox, pointer);
      }
      return;
    }
  }
  struct block block = block_find(pointer);
  if (HAK_UNLIKELY(block.wrong != NULL)) {
    if (calls_libc()) libc_free(pointer);
    else block_refuse("free", pointer, block.wrong);
  } else if (block.tier == BLOCK_GUARDED) {
    count(cache_if_any(), sample_free_guarded(pointer, block.usable), COUNT_FREE_LOCAL);
  } else if (HAK_HARDENED && block.tier == BLOCK_EMPTY) {
    if (!empty_put(pointer)) report_bad_pointer("free", pointer, REPORT_DOUBLE_FREE);
    count(cache_if_any(), class_for(0), COUNT_FREE_LOCAL);
  } else if (block.tier == BLOCK_SAMPLE) {
    unsigned size_class = sample_free(block.slab, pointer);
    if (size_class == CLASS_COUNT) report_bad_pointer("free", pointer, REPORT_DOUBLE_FREE);
    count(cache_if_any(), size_class, COUNT_FREE_LOCAL);
  } else {
    bool huge = block.tier != BLOCK_LARGE;
    struct thread_cache *cache = huge ? cache_if_any() : cache_of_thread();
    unmark(&block, pointer);
    if (huge ? !huge_release(block.superslab, pointer)
             : !large_free(span_cache_of(cache), block.slab))
      report_bad_pointer("free", pointer, REPORT_DOUBLE_FREE);
    count(cache, huge ? COUNTED_HUGE : COUNTED_LARGE, COUNT_FREE_LOCAL);
    release_check_below();
    release_count_free(block.usable, block.usable);
    shared_tick(true);
  }
}
