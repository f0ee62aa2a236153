/* absent.c - see absent.h.
 *
 * Why an unchanged sum, and a proof as well. Pages that a device may write to are copied at once at a fork, and a thread that writes to
 * them does not wait for the rest: in the child such a page may be older than the lists that lead through it. Heaps lie in metadata, which
 * no device has. So the heap of the child tells whether its thread was at work while pages were copied; if it was, nothing that leads
 * through the program's pages is followed. A thread may have brought its bins back to exactly what they were: the same first block
 * and the same count of each. Then a page that was copied at once may still hold a link of before, to a block that is live by now. The proof
 * follows it only as far as each block is one of the class and the list ends where the count says.
 *
 * A thread may also sleep between any two stores, in a signal handler or because it was preempted. Each store of bins.h and
 * remote.h leaves a list whose blocks are free, at most one fewer or one more than the count says (unit.fork_at_every_store); what the
 * thread has in its hands is in no list.
 */
#include "heap/absent.h"

#include <string.h>

#include "heap/bins.h"
#include "heap/quarantine.h"
#include "heap/remote.h"
#include "heap/slabs.h"

_Atomic uint64_t absent_lost; /* relaxed: a figure */

uint64_t absent_lost_bytes(void) {
  return atomic_load_explicit(&absent_lost, memory_order_relaxed);
}

static void lose(size_t bytes) {
  atomic_fetch_add_explicit(&absent_lost, bytes, memory_order_relaxed);
}

/* --- what its thread uses without a lock --------------------------------------------------------------------- */

typedef uint64_t word __attribute__((may_alias));

/* Read in passing: of a thread that is at work any answer will do. */
__attribute__((no_sanitize("thread"))) static uint64_t sum_words(const void *start, size_t bytes,
                                                                 uint64_t sum) {
  const volatile word *words = start;
  for (size_t i = 0; i < bytes / sizeof(word); i++)
    sum = (sum ^ words[i]) * UINT64_C(0x9e3779b97f4a7c15);
  return sum;
}

static uint64_t sum_of(const struct heap *heap) {
  uint64_t sum = sum_words(heap->bins, sizeof heap->bins, 1);
  return sum_words(heap->outgoing, sizeof heap->outgoing, sum);
}

static bool has_thread(const struct heap *heap) {
  return atomic_load_explicit(&heap->state, memory_order_relaxed) == HEAP_ACTIVE;
}

/* The lock is entered, so that nobody takes it away meanwhile. Who takes it away afterwards, to fork as well, makes another note; but then
 * this fork's child does not find the lock whole. */
void absent_note(struct heap *heap) {
  if (lock_holder(&heap->lock) != LOCK_MY_FORKS || !lock_try(&heap->lock)) return;
  if (atomic_load_explicit(&heap->inbox_bytes, memory_order_relaxed) > 0) remote_settle(heap);
  if (has_thread(heap)) heap->sum_at_fork = sum_of(heap);
  lock_release(&heap->lock);
}

static size_t held_bytes(const struct heap *heap) {
  size_t bytes = bins_bytes(heap);
  for (unsigned i = 0; i < OUTGOING_SLOTS; i++)
    if (heap->outgoing[i].head != NULL)
      bytes += (size_t)heap->outgoing[i].count * class_size(heap->outgoing[i].size_class);
  return bytes;
}

static void forget(struct heap *heap) {
  lose(held_bytes(heap));
  memset(heap->bins, 0, sizeof heap->bins);
  memset(heap->outgoing, 0, sizeof heap->outgoing);
}

/* But for the pages of the quarantine, the rest is as in a new heap: it was the thread's. */
bool absent_take_over(struct heap *heap) {
  if (!has_thread(heap)) return false;
  if (heap->sum_at_fork != sum_of(heap)) forget(heap);
  struct quarantine *quarantine = heap->quarantine;
  size_t from = offsetof(struct heap, overflows);
  memset((char *)heap + from, 0, offsetof(struct heap, classes) - from);
  heap->quarantine = quarantine;
  atomic_store_explicit(&heap->in_doubt, true, memory_order_relaxed);
  atomic_store_explicit(&heap->state, HEAP_PARKED, memory_order_relaxed);
  atomic_store_explicit(&heap->in_transition, TRANSITION_GONE, memory_order_relaxed);
  return true;
}

void absent_lose(const struct heap *heap) { lose(heap->free_bytes + held_bytes(heap)); }

/* --- the proof ------------------------------------------------------------------------------------------------ */

/* Is there a block of the class that was made, and free as far as is known? */
static bool is_block(const void *block, unsigned size_class) {
  if ((uintptr_t)block % BLOCK_ALIGNMENT != 0) return false;
  struct slab *slice = map_slab(block);
  if (slice == NULL || atomic_load_explicit(&slice->kind, memory_order_relaxed) != KIND_SLAB ||
      slice->size_class != size_class)
    return false;
  size_t at = (uintptr_t)block % SLICE_BYTES + ((size_t)slice->offset << SLICE_SHIFT);
  uint32_t size = slab_block_size(slice);
  return at % size == 0 && at / size < slab_carved(slab_head(slice)) &&
         link_is_free(block, size_class);
}

/* A list of `held` blocks, or one fewer or more, that ends; how many. 0: it is none, and its blocks are lost. */
static unsigned prove_list(const void *list, unsigned size_class, unsigned held) {
  unsigned count = 0;
  for (void *next; list != NULL; list = next, count++)
    if (count > held || !is_block(list, size_class) || !link_try(list, &next)) break;
  if (list == NULL && count + 1 >= held) return count;
  lose((size_t)(count > held ? count : held) * class_size(size_class));
  return 0;
}

static void prove_bin(struct heap *heap, unsigned size_class) {
  struct bin *bin = &heap->bins[size_class];
  int64_t held = (int64_t)bin->capacity - bin->room;
  unsigned count = 0;
  if (bin->head != NULL) count = prove_list(bin->head, size_class, held > 0 ? (unsigned)held : 0);
  if (count == 0) bin->head = NULL;
  bin->room = (int32_t)bin->capacity - (int32_t)count;
}

/* Its blocks go into their slabs, or to their owners: whose the slot was may not be known. */
static void prove_slot(struct heap *heap, struct outgoing *slot) {
  void *list = slot->head;
  unsigned size_class = slot->size_class, held = slot->count;
  memset(slot, 0, sizeof *slot);
  if (list == NULL || size_class >= CLASS_COUNT) return;
  if (prove_list(list, size_class, held) > 0) slabs_put_mixed(heap, size_class, list, true);
}

void absent_prove_now(struct heap *heap) {
  atomic_store_explicit(&heap->in_doubt, false, memory_order_relaxed);
  for (unsigned c = 0; c < CLASS_COUNT; c++) prove_bin(heap, c);
  bins_count(heap);
  for (unsigned i = 0; i < OUTGOING_SLOTS; i++) prove_slot(heap, &heap->outgoing[i]);
  span_cache_settle(&heap->spans);
  lose(quarantine_settle(heap));
}
