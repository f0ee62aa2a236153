/* samples.c - see samples.h. */
#include "heap/samples.h"

#include "heap/purger.h"
#include "heap/quarantine.h"
#include "heap/refill.h"
#include "heap/slabs.h"

_Alignas(4096) struct arena heap_samples; /* what is used of it lies in one page */
bool heap_samples_lost;

enum { NEW, BEING_MADE, THERE };
static _Atomic uint32_t state;

/* acquire, pairs with the release in heap_samples_start: who finds it there finds its lock as it was made */
static bool is_there(void) { return atomic_load_explicit(&state, memory_order_acquire) == THERE; }

bool heap_samples_start(void) {
  uint32_t expected = NEW;
  if (heap_samples_lost) return false;
  if (HAK_LIKELY(is_there())) return true;
  /* Of two threads one makes it; the other's block is no sample. relaxed: nothing was written before. */
  if (!atomic_compare_exchange_strong_explicit(&state, &expected, BEING_MADE, memory_order_relaxed,
                                               memory_order_relaxed))
    return false;
  lock_init(&heap_samples.lock);
  atomic_store_explicit(&heap_samples.state, ARENA_SAMPLES, memory_order_relaxed);
  purger_set_mark(&heap_samples);
  arena_list(&heap_samples);
  atomic_store_explicit(&state, THERE, memory_order_release);
  return true;
}

/* Of the map no bin is named for it: a free() comes to its slow path by that. The lock is let go of meanwhile: units may be given back for a
 * new one, and a library that hears of it allocates (os_beside_program). A sample of its own would wait for this lock. */
static struct slab *new_slab(unsigned size_class) {
  lock_release(&heap_samples.lock);
  struct slab *slab = slab_new(size_class, NULL, PAGES_SMALL);
  lock_acquire(&heap_samples.lock);
  if (slab == NULL) return NULL;
  atomic_store_explicit(&slab->sampled, 1, memory_order_relaxed);
  slabs_own(&heap_samples, slab);
  slabs_enlist(&heap_samples, slab);
  return slab;
}

#if HAK_HARDENED

/* Of a free slot so much is zero: it is longer than the block in it may be. */
static size_t zeros_end(unsigned size_class) {
  size_t size = class_size(size_class);
  return size < link_zeros_most ? size : link_zeros_most;
}

static void clear_slot(void *block, unsigned size_class) {
  size_t end = zeros_end(size_class);
  if (end > LINK_WORDS_BYTES) link_zero((char *)block + LINK_WORDS_BYTES, end - LINK_WORDS_BYTES);
}

/* A new one may lie in memory that was used before. */
static void hand_out_slot(void *block, unsigned size_class, bool is_new) {
  if (is_new) clear_slot(block, size_class);
  link_hand_out(block, size_class * sizeof(struct bin));
  if (zeros_end(size_class) > LINK_WORDS_BYTES) (void)link_look_far(block, zeros_end(size_class));
}

#else

static void clear_slot(void *block, unsigned size_class) { link_clear(block, size_class); }
static void hand_out_slot(void *block, unsigned size_class, bool is_new) {
  (void)is_new;
  link_hand_out(block, size_class * sizeof(struct bin));
}

#endif

void *heap_samples_take(unsigned size_class, bool *zeroed) {
  struct arena_class *slabs = &heap_samples.classes[size_class];
  if (slabs->first == NULL && !refill_recommit(&heap_samples, size_class)) new_slab(size_class);
  struct slab *slab = slabs->first;
  if (slab == NULL) return NULL;
  int64_t free_before = slab_free_count(slab);
  bool is_new = slab->free_list == NULL;
  void *block = is_new ? refill_untouched(slab, zeroed) : NULL;
  if (block == NULL) {
    block = slab_take_one(slab);
    if (block != NULL && option_guard() != GUARD_OFF) hand_out_slot(block, size_class, is_new);
  }
  slabs_count_free(&heap_samples, slab, slab_free_count(slab) - free_before);
  slabs_list_again(&heap_samples, slab);
  return block;
}

void heap_samples_return(struct slab *slab, void *block) {
  slabs_put_run(&heap_samples, slab, block, block, 1, true);
}

void heap_samples_flush(void) {
  if (option_guard() != GUARD_FULL || heap_samples_lost || !is_there()) return;
  lock_acquire(&heap_samples.lock);
  quarantine_flush(NULL);
  lock_release(&heap_samples.lock);
  superslab_settle();
}

void heap_samples_put(struct slab *slab, void *block) {
  if (option_guard() != GUARD_OFF) {
    clear_slot(block, slab->size_class);
    link_set_state(block, slab->size_class, STATE_FREE + slab->size_class);
  }
  if (option_guard() == GUARD_FULL) quarantine_put(NULL, block, slab->size_class);
  else heap_samples_return(slab, block);
}
