/* homes_world.h - for tests of homes: as many heaps that own slabs as there may be, and guests of each.
 *
 * Borrowed heaps stand for those of threads: they are taken and parked by the same functions. Where a test needs the fast paths it
 * starts a thread. Each test has a size of its own, so that no bin and no slab has anything of it before. */
#ifndef HAK_TEST_HOMES_WORLD_H
#define HAK_TEST_HOMES_WORLD_H

#include "child.h"

#include <pthread.h>
#include <stdatomic.h>

#include "front/front.h"
#include "heap/bins.h"
#include "heap/homes.h"
#include "heap/refill.h"
#include "heap/remote.h"
#include "heap/slabs.h"

enum { MOST = 256, GUESTS_EACH = 2, GUESTS_LEAST = 8, WAIT_S = 60 };

static unsigned count;                   /* of homes */
static struct thread_cache *homes[MOST]; /* the first is this thread's */
static struct thread_cache *guests[GUESTS_EACH * MOST];

static inline unsigned guest_count(void) { return GUESTS_EACH * count; }

static inline struct arena *owner_of(const void *block, size_t size) {
  return arena_of_inbox(map_inbox(block), class_for(size));
}

static inline int64_t inbox_of(struct arena *arena) { return atomic_load(&arena->inbox_bytes); }

/* As malloc and free do it for a thread of this heap. */
static inline void *take(struct thread_cache *heap, size_t size) {
  unsigned size_class = class_for(size);
  void *block = bin_pop(&heap->bins[size_class]);
  if (block == NULL) block = refill(heap, size_class, false, NULL);
  assert_non_null(block);
  guard_allocated(block, size_class);
  return block;
}

static inline void put(struct thread_cache *heap, void *block) {
  struct inbox *inbox = map_inbox(block);
  guard_freed(block, inbox);
  size_t place = cache_place(heap, inbox);
  if (!cache_keeps(place)) remote_free(heap, inbox, block);
  else if (bin_push(cache_bin_at(heap, place), block))
    bin_overflow(heap, cache_bin_at(heap, place));
}

static inline unsigned blocks_in(void *list) {
  unsigned blocks = 0;
  for (; list != NULL; list = link_next(list)) blocks++;
  return blocks;
}

/* Blocks of the class that are out of its slabs, where no page was given back. */
static inline uint64_t live_of(struct arena *arena, size_t size) {
  uint64_t live = 0;
  for (struct slab *slab = arena->classes[class_for(size)].first; slab != NULL; slab = slab->next)
    live += slab_carved(slab) - slab_free_count(slab);
  return live;
}

static inline void in_thread(void *(*body)(void *), void *argument) {
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, body, argument), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
}

/* For the group. */
static inline int start(void **state) {
  (void)state;
  hak_free(hak_malloc(1));
  homes[count++] = cache_of_thread();
  while (count < MOST && homes_may_be_more(0))
    if ((homes[count++] = cache_borrow()) == NULL) return -1;
  for (unsigned i = 0; i < guest_count(); i++)
    if ((guests[i] = cache_borrow()) == NULL) return -1;
  return homes[0] != NULL ? 0 : -1;
}

static inline int end(void **state) {
  (void)state;
  for (unsigned i = 0; i < guest_count(); i++) cache_return(guests[i]);
  for (unsigned i = 1; i < count; i++) cache_return(homes[i]);
  return 0;
}

#endif
