/* common_blocks.h - blocks of heaps that many threads have in common: whose they are, and one by a refill. */
#ifndef COMMON_BLOCKS_H
#define COMMON_BLOCKS_H

#include "unit_test.h"

#include "front/guard.h"
#include "heap/refill.h"
#include "superslab/map.h"

static inline struct heap *owner_of(const void *block, size_t bytes) {
  return heap_of_bin(map_bin(block), class_for(bytes));
}

static inline void *take(struct heap *heap, size_t bytes) {
  void *block = refill(heap, class_for(bytes), false, NULL);
  assert_non_null(block);
  guard_allocated(block, class_for(bytes));
  return block;
}

#endif
