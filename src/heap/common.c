/* common.c - see common.h. */
#include "heap/common.h"

#include <string.h>

#include "heap/engine.h"
#include "heap/share.h"

/* Neighbouring classes have a heap and its lock together, so that one can lend to the other (loans.h). */
enum { CLASSES_A_HEAP = 8, COMMON_HEAPS = (CLASS_COUNT + CLASSES_A_HEAP - 1) / CLASSES_A_HEAP };

/* For each node. Written under heap_list_lock, by release; read by acquire: who finds a heap there finds its lock as it was made. */
static _Atomic(struct heap *) commons[NODES][COMMON_HEAPS];

/* A class of which its thread takes so many blocks in so short a time is worth slabs of its own. */
enum { RENT_MOST = 8, RENT_MS = 64 };

#define FIRST_LARGER CLASS_FOR(COMMON_ABOVE + 1)

bool common_wanted(const struct heap *heap, unsigned size_class) {
  if (!common_has_class(size_class) || share_is_on(size_class)) return false;
  if (heap->rented[size_class] >= RENT_MOST) return false;
  if (size_class >= FIRST_LARGER) return heap_made() > COMMON_FROM_HEAPS;
  return heap_made() > FEW_HEAPS &&
         atomic_load_explicit(&heap->classes[size_class].count, memory_order_relaxed) == 0;
}

void common_rent(struct heap *heap, unsigned size_class) {
  uint64_t now = os_clock_ms();
  if (now - heap->rented_since >= RENT_MS) {
    heap->rented_since = now;
    unsigned first = share_is_on(COMMON_FIRST_CLASS) ? SHARE_LAST + 1 : COMMON_FIRST_CLASS;
    for (unsigned c = first; c < CLASS_COUNT; c++)
      if (heap->rented[c] < RENT_MOST) heap->rented[c] = 0;
  }
  heap->rented[size_class]++;
}

/* Of smaller ones, taken singly, a thread that lives for a moment would rent too many: the next one goes on counting. */
void common_park(struct heap *heap) {
  memset(heap->rented + FIRST_LARGER, 0, (CLASS_COUNT - FIRST_LARGER) * sizeof heap->rented[0]);
  if (share_is_on(0)) memset(heap->rented, 0, (SHARE_LAST + 1) * sizeof heap->rented[0]);
}

void common_start(struct heap *heap, unsigned node) {
  lock_init(&heap->lock);
  atomic_store_explicit(&heap->state, HEAP_COMMON, memory_order_relaxed);
  heap_set_node(heap, node);
  if (option_counting()) /* without memory for them it counts nothing */
    heap->counters = meta_allocate(sizeof *heap->counters, _Alignof(struct counters));
  engine_set_mark(heap);
  heap_list(heap);
}

static struct heap *make(_Atomic(struct heap *) *place, unsigned node) {
  lock_acquire(&heap_list_lock);
  struct heap *heap = atomic_load_explicit(place, memory_order_relaxed);
  if (heap == NULL && (heap = meta_allocate(sizeof *heap, _Alignof(struct heap))) != NULL) {
    common_start(heap, node);
    atomic_store_explicit(place, heap, memory_order_release);
  }
  lock_release(&heap_list_lock);
  return heap;
}

struct heap *common_heap(unsigned size_class) {
  unsigned node = node_now();
  _Atomic(struct heap *) *place = &commons[node][size_class / CLASSES_A_HEAP];
  struct heap *heap = atomic_load_explicit(place, memory_order_acquire);
  return HAK_LIKELY(heap != NULL) ? heap : make(place, node);
}

bool common_waits(const struct heap *heap) {
  return atomic_load_explicit(&heap->inbox_bytes, memory_order_relaxed) >=
         (int64_t)COMMON_DUE_BYTES;
}

bool common_is_due(unsigned size_class) {
  if (share_is_on(size_class) && share_is_due(size_class)) return true;
  if (!common_has_class(size_class)) return false;
  for (unsigned node = 0; node < node_end(); node++) {
    const struct heap *heap =
        atomic_load_explicit(&commons[node][size_class / CLASSES_A_HEAP], memory_order_acquire);
    if (heap != NULL && common_waits(heap)) return true;
  }
  return false;
}

void common_lose(struct heap *heap) {
  atomic_store_explicit(&heap->state, HEAP_LOST, memory_order_relaxed);
  if (share_lose(heap)) return;
  _Atomic(struct heap *) *places = commons[heap_node(heap)];
  for (unsigned i = 0; i < COMMON_HEAPS; i++)
    if (atomic_load_explicit(&places[i], memory_order_relaxed) == heap)
      atomic_store_explicit(&places[i], NULL, memory_order_relaxed);
}
