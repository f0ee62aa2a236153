/* resize.c - realloc: in place, by moving pages, or by copying. */
#include <errno.h>
#include <string.h>

#include "front/front.h"
#include "front/full.h"
#include "front/guard.h"
#include "front/named_front.h"
#include "front/sampled.h"
#include "large/large.h"
#include "release/limit.h"

/* Does a block of a slab stay where it is? */
static bool small_stays(size_t usable, size_t size) {
  return front_small_stays(usable, size) ||
         (size <= usable && class_for(size) == class_for(usable));
}

/* Where the block is, or where its pages move to; NULL: it has to be copied. */
static void *resize_in_place(void *pointer, const struct block *block, size_t size) {
  if (block->tier <= BLOCK_GUARDED)
    return small_stays(block_usable(block, pointer), size) ? pointer : NULL;
  bool keeps_half = size > block->usable / 2;
  /* Of a small request with a large alignment a guard may leave fewer bytes than a slice. */
  if (block->tier == BLOCK_LARGE && size <= SMALL_MAX)
    return keeps_half && size <= block->usable ? pointer : NULL;
  if (block->tier == BLOCK_LARGE) return large_resize(block->slab, size) ? pointer : NULL;
  if (size <= LARGE_MAX && !keeps_half) return NULL;
  struct superslab *superslab = huge_resize(block->superslab, pointer, size);
  if (superslab == NULL) return NULL;
  /* The kernel did not let it shrink. */
  bool kept = size < block->usable && superslab->huge_usable == block->usable;
  if (kept && block->usable > round_to_page(size)) guard_kept_size();
  return superslab->base;
}

/* Not beyond a power of two, at which many programs end a buffer's growth: redis's nodes of a list at 8 KiB. */
static size_t with_an_eighth(size_t size) {
  size_t power = (size_t)2 << LOG2_OF(size - 1), most = front_grown_most(size);
  return most < power ? most : power;
}

/* A block that grows by little at a time is likely to do so again: with room for an eighth more it is copied half as often. One that
 * is to have more than 16 KiB, and at most doubles, has grown before. A power of two saves half of the copies that a vector makes
 * on its way to 64 KiB, from where it grows by slices (docs/decisions/0010). */
static size_t size_to_ask_for(size_t size, size_t usable) {
  if (size <= usable) return size;
  size_t more = size - usable;
  if (front_grows_to_power(size) && more <= usable) return front_grown_most(size);
  bool creeps = more < usable / 4;
  return creeps && size >= TINY_MAX / 4 && size <= LARGE_MAX ? with_an_eighth(size) : size;
}

/* What the program asked for is `size`: a sample has no room beyond. */
static void *allocate_with_room(size_t size, size_t room) {
  if (room == size) return front_allocate(size);
  if (crosses(size) && is_sample(size)) return front_allocate_as_sample(size);
  return front_allocate_unsampled(room);
}

/* To `moved`, which was allocated for it when errno was `saved`; NULL: there was no memory. */
static void *move_to(void *moved, void *pointer, size_t usable, size_t size, int saved) {
  if (moved == NULL) {
    if (size > usable) return NULL;
    errno = saved; /* a shrink never fails */
    guard_kept_size();
    return pointer;
  }
  memcpy(moved, pointer, size < usable ? size : usable);
  if (full_is_on()) full_retire(pointer);
  else front_free(pointer);
  return moved;
}

static void *move(void *pointer, size_t usable, size_t size) {
  int saved = errno;
  void *moved = allocate_with_room(size, size_to_ask_for(size, usable));
  return move_to(moved, pointer, usable, size, saved);
}

/* A Huge block that grows was a sample, or has a chance by what it grows by: together that of its new size, since the
 * distribution has no memory. What was asked for before is known to a page there. A Large block, and one that shrinks, is another
 * one to the sampler. */
static void sample_resized(void *block, enum block_tier tier, size_t usable, size_t size) {
  bool grows = tier == BLOCK_HUGE && size >= usable;
  size_t counted = grows ? size - usable : size;
  if (crosses(counted) && is_sample(counted)) mark_sample(block, size);
}

/* `record`: of what it was as a sample. False: it counts as another block. */
static bool sample_grown(void *block, enum block_tier tier, size_t size,
                         struct sample_record *record) {
  struct block now = block_find(block);
  struct slab *descriptor = descriptor_of(&now);
  if (tier != BLOCK_HUGE || size < record->size || descriptor == NULL) {
    sample_drop(record);
    return false;
  }
  sample_put_back(descriptor, block, size, record);
  return true;
}

/* The address space is its own already; only a guard behind it may have no room (superslab/guard_pages.h). */
static bool grows_where_it_is(const struct block *block, size_t usable, size_t size) {
  return block->tier == BLOCK_HUGE && size >= usable && size <= huge_room(block->superslab);
}

/* A block of a named heap stays in it. */
static void *reallocate_named(struct hak_heap *named, void *pointer, const struct block *block,
                              size_t usable, size_t size) {
  struct slab *descriptor = descriptor_of(block);
  size_t more = size > usable ? size - usable : 0;
  if (!named_begin_resize(named, descriptor, usable, more)) return front_refuse();
  void *same = resize_in_place(pointer, block, size);
  struct block now = {.usable = usable};
  if (descriptor != NULL) {
    now = block_find(same != NULL ? same : pointer);
    descriptor = descriptor_of(&now);
  }
  named_end_resize(named, descriptor, usable + more, now.usable);
  if (same != NULL) return same;
  int saved = errno;
  void *moved = front_named_allocate(named, BLOCK_ALIGNMENT, size, false);
  return move_to(moved, pointer, usable, size, saved);
}

void *front_reallocate(void *pointer, const struct block *block, size_t size) {
  if (size > PTRDIFF_MAX) return front_refuse();
  size_t usable = block_usable(block, pointer);
  if (HAK_HARDENED && block->tier == BLOCK_EMPTY) return move(pointer, usable, size);
  struct hak_heap *named = front_named_of(block, pointer);
  if (HAK_UNLIKELY(named != NULL)) return reallocate_named(named, pointer, block, usable, size);
  struct sample_record record;
  if (grows_where_it_is(block, usable, size) && sample_has(descriptor_of(block))) {
    void *here = resize_in_place(pointer, block, size);
    if (here != NULL) {
      sample_grow(here, size);
      return here;
    }
  }
  bool lifted = lift_sample(block, pointer, &record);
  void *same = resize_in_place(pointer, block, size);
  if (same == NULL) {
    if (lifted) sample_drop(&record);
    int saved = errno;
    void *moved = move(pointer, usable, size);
    if (HAK_LIKELY(moved != NULL) || block->tier != BLOCK_HUGE) return moved;
    /* There is no room for the block twice, but all that could be given back was: there may be for what it grows by. */
    same = resize_in_place(pointer, block, size);
    if (same == NULL) return NULL;
    errno = saved;
    lifted = false;
  }
  if (block->tier == BLOCK_HUGE && size > usable) {
    unit_take(size - usable);
    limit_check(size - usable);
  }
  if (lifted && sample_grown(same, block->tier, size, &record)) return same;
  if (block->tier >= BLOCK_LARGE) sample_resized(same, block->tier, usable, size);
  return same;
}

void *front_reallocate_own(void *pointer, size_t usable, size_t size) {
  return small_stays(usable, size) ? pointer : move(pointer, usable, size);
}
