/* move.c - which blocks a program may move so that memory goes back (hak_should_move), and how it frees what it has moved.
 *
 * A slab whose blocks lie far apart keeps all of its pages. Moved out of it, they lie close in slabs of which refills take every free block.
 * What is asked is what valkey asks of jemalloc: how full the slab is beside the others of its class that are not full. It is
 * asked of counts that change under the heap's lock and are read without it: an answer is a hint, never more.
 */
#include "front/full.h"
#include "front/named_front.h"
#include "heap/remote.h"
#include "release/background.h"
#include "release/marks.h"

/* A slab counts as emptier than others with this part of their average of free blocks, so that slabs of about the same use are not
 * all left alone. valkey moves what is less than 1.125 times as full as the average. */
enum { ABOUT_NUMERATOR = 7, ABOUT_DENOMINATOR = 8 };

/* A free block of so many pages has one at least that goes back by itself. */
enum { PAGES_OF_ITS_OWN = 2 };

static uint64_t free_blocks(const struct arena *arena, unsigned size_class) {
  return atomic_load_explicit(&arena->inboxes[size_class].free_blocks, memory_order_relaxed);
}

/* Free blocks of the class where the calling thread's next ones come from, without those of this slab, which has `here`. A heap
 * that is parked gives slabs to who needs some (heap/adopt.h). */
static uint64_t room_elsewhere(const struct arena *owner, unsigned size_class, uint64_t here) {
  const struct thread_cache *cache = cache_if_any();
  const struct arena *mine = cache != NULL ? cache->arena : NULL;
  bool parked = atomic_load_explicit(&owner->state, memory_order_relaxed) == ARENA_PARKED;
  uint64_t room = 0;
  if (owner == mine || parked) {
    uint64_t all = free_blocks(owner, size_class);
    room = all > here ? all - here : 0;
  }
  if (owner != mine && mine != NULL) room += free_blocks(mine, size_class);
  return room;
}

bool front_should_move(const void *pointer) {
  struct block block = block_find(pointer);
  if (block.wrong != NULL || block.tier != BLOCK_SMALL) return false;
  if (front_named_of(&block, pointer) != NULL) return false; /* it would leave its heap */
  struct inbox *inbox = map_inbox(pointer);
  const struct slab *slab = block.slab;
  if (inbox == NULL || slab_block_size(slab) >= PAGES_OF_ITS_OWN * os_page_size()) return false;
  unsigned size_class = slab->size_class;
  const struct arena *owner = arena_of_inbox(inbox, size_class);
  uint64_t here = slab_free_count(slab), away = here + slab_hole_count(slab);
  uint64_t carved = slab_carved(slab), used = carved > away ? carved - away : 0;
  uint64_t slabs = atomic_load_explicit(&owner->classes[size_class].partial, memory_order_relaxed);
  uint64_t all = free_blocks(owner, size_class);
  return here > 0 && used > 0 && ABOUT_DENOMINATOR * here * slabs >= ABOUT_NUMERATOR * all &&
         room_elsewhere(owner, size_class, here) >= used;
}

void front_free_moved(void *pointer) {
  if (full_is_on()) {
    full_free(pointer);
    return;
  }
  struct thread_cache *cache = cache_of_thread();
  struct inbox *inbox = map_has_entry(pointer) ? map_inbox(pointer) : NULL;
  size_t place = cache != NULL ? cache_place(cache, inbox) : SIZE_MAX;
  if (!cache_keeps(place)) {
    front_free(pointer);
    return;
  }
  guard_freed(pointer, inbox);
  struct bin *own = cache_bin_at(cache, place);
  cache_count(cache, (unsigned)(own - cache->bins), COUNT_FREE_LOCAL, 1);
  bin_pass_by(cache, own, pointer);
  release_answer(cache);
}
