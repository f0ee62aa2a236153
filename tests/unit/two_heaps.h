/* two_heaps.h - for tests of blocks that others free: this thread's heap, which owns them, and another that frees them. */
#ifndef HAK_TEST_TWO_HEAPS_H
#define HAK_TEST_TWO_HEAPS_H

#include "unit_test.h"

#include "front/guard.h"
#include "heap/remote.h"

static int64_t inbox_bytes(struct arena *arena) { return atomic_load(&arena->inbox_bytes); }

static struct thread_cache *owner, *other;

static int start(void **state) {
  (void)state;
  hak_free(hak_malloc(1));
  owner = cache_of_thread();
  other = cache_borrow();
  return owner != NULL && other != NULL ? 0 : -1;
}

static int end(void **state) {
  (void)state;
  cache_return(other);
  return 0;
}

/* Where the machine is slow a block may be lent by a larger class (heap/fallback.h): it would go to another inbox. */
static inline void *block_of_own_class(size_t size) {
  for (;;) {
    void *block = hak_malloc(size);
    assert_non_null(block);
    if (map_inbox(block) == &owner->arena->inboxes[class_for(size)]) return block;
  }
}

/* As free does it. */
static inline void send(struct thread_cache *heap, void *block) {
  guard_freed(block, map_inbox(block));
  remote_free(heap, map_inbox(block), block);
}

#endif
