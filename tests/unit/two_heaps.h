/* two_heaps.h - for tests of blocks that others free: this thread's heap, which owns them, and another that frees them. */
#ifndef HAK_TEST_TWO_HEAPS_H
#define HAK_TEST_TWO_HEAPS_H

#include "unit_test.h"

#include "front/guard.h"
#include "heap/remote.h"

static int64_t inbox_bytes(struct heap *heap) { return atomic_load(&heap->inbox_bytes); }

static struct heap *owner, *other;

static int start(void **state) {
  (void)state;
  hak_free(hak_malloc(1));
  owner = heap_of_thread();
  other = heap_borrow();
  return owner != NULL && other != NULL ? 0 : -1;
}

static int end(void **state) {
  (void)state;
  heap_return(other);
  return 0;
}

/* As free does it. */
static void send(struct heap *heap, void *block) {
  guard_freed(block, map_bin(block));
  remote_free(heap, map_bin(block), block);
}

#endif
