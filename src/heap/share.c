/* share.c - see share.h. */
#include "heap/share.h"

#include <stddef.h>
#include <string.h>

#include "heap/bins.h"
#include "heap/common.h"
#include "os/os.h"

_Static_assert(offsetof(struct heap, bins) == 0, "for share_bin");

union share_place share_places[SHARE_HEAPS];

/* Written under heap_list_lock, by release; read by acquire: who finds READY there finds the heap's lock as it was made. */
enum { SHARE_NONE, SHARE_READY, SHARE_LOST };
static _Atomic(uint8_t) states[SHARE_HEAPS];

void share_begin(struct heap *heap) {
  static _Atomic uint32_t begun; /* relaxed: one after the other, whoever is first */
  if (HAK_HARDENED || node_are_many()) return;
  heap->share_set =
      (uint8_t)(atomic_fetch_add_explicit(&begun, 1, memory_order_relaxed) % SHARE_SETS);
  /* A bin for what its thread never asks for, as that of a thread that only frees, would gather what others want. */
  memset(heap->overflows, OVERFLOWS_GROW, SHARE_LAST + 1);
}

static bool make(unsigned place) {
  lock_acquire(&heap_list_lock);
  uint8_t state = atomic_load_explicit(&states[place], memory_order_relaxed);
  if (state == SHARE_NONE) {
    common_start(&share_places[place].heap, 0);
    atomic_store_explicit(&states[place], state = SHARE_READY, memory_order_release);
  }
  lock_release(&heap_list_lock);
  return state == SHARE_READY;
}

/* A class that a thread refills so often in so short a time is worth slabs of its own: so it is with those who allocate what others free, who do
 * not meet at a lock then. */
enum { REFILLS_MOST = 4, REFILLS_MS = 1000 };

bool share_wanted(const struct heap *heap, unsigned size_class) {
  return share_is_on(size_class) && heap->rented[size_class] < REFILLS_MOST;
}

static void count_refill(struct heap *heap, unsigned size_class) {
  uint64_t now = os_clock_ms();
  if (now - heap->shared_since >= REFILLS_MS) {
    heap->shared_since = now;
    for (unsigned c = 0; c <= SHARE_LAST; c++)
      if (heap->rented[c] < REFILLS_MOST) heap->rented[c] = 0;
  }
  heap->rented[size_class]++;
}

/* Neighbouring classes are apart: they are most often wanted together, and their bins fall into different slots of outgoing blocks. */
static unsigned place_of(unsigned set, unsigned size_class) {
  return set * SHARE_HEAPS_A_SET + size_class % SHARE_HEAPS_A_SET;
}

struct heap *share_heap(struct heap *heap, unsigned size_class) {
  unsigned place = place_of(heap->share_set, size_class);
  uint8_t state = atomic_load_explicit(&states[place], memory_order_acquire);
  if (HAK_UNLIKELY(state != SHARE_READY) && (state == SHARE_LOST || !make(place))) return NULL;
  count_refill(heap, size_class);
  return &share_places[place].heap;
}

bool share_is_due(unsigned size_class) {
  for (unsigned set = 0; set < SHARE_SETS; set++) {
    unsigned at = place_of(set, size_class);
    if (atomic_load_explicit(&states[at], memory_order_acquire) == SHARE_READY &&
        common_waits(&share_places[at].heap))
      return true;
  }
  return false;
}

bool share_lose(const struct heap *heap) {
  if (!share_has_bin(heap->bins)) return false;
  size_t place = ((uintptr_t)heap - (uintptr_t)share_places) / SHARE_STRIDE;
  atomic_store_explicit(&states[place], SHARE_LOST, memory_order_relaxed);
  return true;
}
