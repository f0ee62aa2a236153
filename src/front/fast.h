/* fast.h - the fast paths of malloc and free; everything else is a call away.
 *
 * 18 (malloc) and 20 (free of the thread's own) x86-64 instructions, no lock, no atomic read-modify-write, no
 * option test; package.fast_path counts them. `docs/architecture.md` walks through both.
 */
#ifndef HAK_FAST_H
#define HAK_FAST_H

#include "front/guard.h"
#include "heap/bins.h"
#include "sample/sample.h"
#include "superslab/map.h"

/* Requests up to TABLE_MAX find their bin by class_place_for(), larger ones by class_for_mid(). */
_Static_assert(sizeof(struct bin) == CLASS_PLACE, "a place is the offset of a bin among bins");

/** Slow halves; each is a tail call. */
void *front_allocate_slow(size_t size);               /* bin was empty */
void *front_allocate_sample(size_t size);             /* it may be a sample */
void *front_allocate_beyond(size_t size);             /* larger than TABLE_MAX */
void front_free_slow(void *pointer);                  /* not a block of the thread's own slabs */
void front_free_elsewhere(void *block, size_t place); /* the same, its cache_place known */
void front_free_overflow(size_t place);               /* the bin there is over its capacity */

/** Where the fast path goes on: malloc's three, or those of operator new, which has something to do when they return NULL. Jumped to,
 * not called, so that it saves no register for it. */
typedef void *front_half(size_t size);

/* Of the hardened variant's modes the interface's fast paths are for light alone. The others, whose calls come to it by the slow halves, have bins all
 * the same. */
enum front_mode { FRONT_FAST, FRONT_ANY };

HAK_INLINE struct thread_cache *front_malloc_cache(enum front_mode mode) {
  return HAK_HARDENED && mode == FRONT_ANY ? thread_cache : malloc_thread.cache;
}

HAK_INLINE struct thread_cache *front_free_cache(enum front_mode mode) {
  return HAK_HARDENED && mode == FRONT_FAST ? malloc_thread.cache : thread_cache;
}

HAK_INLINE void *front_allocate_counted_or(size_t size, enum front_mode mode, bool guarded,
                                           front_half *slow) {
  size_t offset = class_place_for(size);
  HAK_NOT_IN_RESULT(offset);
  struct bin *bin = (struct bin *)(void *)((char *)front_malloc_cache(mode)->bins + offset);
  if (guarded) return HAK_LIKELY(bin->head != NULL) ? bin_hand_out(bin, offset) : slow(size);
  void *block = bin_pop(bin);
  return HAK_LIKELY(block != NULL) ? block : slow(size);
}

/** A block of at most TABLE_MAX bytes, which the sampler has counted. In any mode. */
HAK_INLINE void *front_allocate_counted(size_t size) {
  return front_allocate_counted_or(size, FRONT_ANY, guard_is_on(), front_allocate_slow);
}

HAK_INLINE void *front_allocate_or(size_t size, enum front_mode mode, bool guarded,
                                   front_half *slow, front_half *sample, front_half *beyond) {
  if (HAK_UNLIKELY(size > TABLE_MAX)) return beyond(size);
  if (sample_crosses(size)) return sample(size);
  return front_allocate_counted_or(size, mode, guarded, slow);
}

/** malloc, in any mode. */
HAK_INLINE void *front_allocate(size_t size) {
  return front_allocate_or(size, FRONT_ANY, guard_is_on(), front_allocate_slow,
                           front_allocate_sample, front_allocate_beyond);
}

/** Where free's fast path goes on when something is out of the ordinary: for a pointer of which the map may name an inbox, and any other one. */
typedef void free_half(void *block, const struct inbox *inbox);

HAK_INLINE void front_free_or(void *block, enum front_mode mode, bool guarded, free_half *far) {
  if (HAK_LIKELY(map_has_entry(block))) {
    struct inbox *inbox = map_inbox(block);
    size_t place = cache_place(front_free_cache(mode), inbox);
    if (HAK_LIKELY(cache_keeps(place))) {
      if (guarded && HAK_UNLIKELY(!guard_freed_near(block, place))) {
        far(block, inbox);
        return;
      }
      if (HAK_UNLIKELY(bin_push_at(front_free_cache(mode), place, block)))
        front_free_overflow(place);
      return;
    }
    if (guarded) far(block, inbox);
    else front_free_elsewhere(block, place);
    return;
  }
  if (HAK_HARDENED && mode == FRONT_FAST) far(block, NULL);
  else front_free_slow(block);
}

/** free, in any mode. */
HAK_INLINE void front_free(void *block) {
  front_free_or(block, FRONT_ANY, guard_is_on(), guard_free_far);
}

#endif
