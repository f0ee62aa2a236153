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

/* Requests up to this find their bin by a table of offsets, larger ones by class_for_mid(). */
#define TABLE_MAX 4096u
_Static_assert(TABLE_MAX == MID_LEAST, "what is not in the table is for class_for_mid");
extern const uint16_t bin_offsets[TABLE_MAX / BLOCK_ALIGNMENT + 1] HAK_HIDDEN;

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

HAK_INLINE void *front_allocate_counted_or(size_t size, bool guarded, front_half *slow) {
  size_t offset = bin_offsets[(size + BLOCK_ALIGNMENT - 1) / BLOCK_ALIGNMENT];
  HAK_NOT_IN_RESULT(offset);
  struct bin *bin = (struct bin *)(void *)((char *)malloc_thread.cache->bins + offset);
  if (guarded) return HAK_LIKELY(bin->head != NULL) ? bin_hand_out(bin, offset) : slow(size);
  void *block = bin_pop(bin);
  return HAK_LIKELY(block != NULL) ? block : slow(size);
}

/** A block of at most TABLE_MAX bytes, which the sampler has counted. `guarded`: the hardened variant's checks are made. */
HAK_INLINE void *front_allocate_counted(size_t size, bool guarded) {
  return front_allocate_counted_or(size, guarded, front_allocate_slow);
}

HAK_INLINE void *front_allocate_or(size_t size, bool guarded, front_half *slow, front_half *sample,
                                   front_half *beyond) {
  if (HAK_UNLIKELY(size > TABLE_MAX)) return beyond(size);
  if (sample_crosses(size)) return sample(size);
  return front_allocate_counted_or(size, guarded, slow);
}

HAK_INLINE void *front_allocate_in(size_t size, bool guarded) {
  return front_allocate_or(size, guarded, front_allocate_slow, front_allocate_sample,
                           front_allocate_beyond);
}

HAK_INLINE void *front_allocate(size_t size) { return front_allocate_in(size, guard_is_on()); }

HAK_INLINE void front_free_in(void *block, bool guarded) {
  if (HAK_LIKELY(map_has_entry(block))) {
    struct inbox *inbox = map_inbox(block);
    size_t place = cache_place(thread_cache, inbox);
    if (HAK_LIKELY(cache_keeps(place))) {
      if (guarded && HAK_UNLIKELY(!guard_freed_near(block, place))) {
        guard_free_far(block, inbox);
        return;
      }
      if (HAK_UNLIKELY(bin_push_at(thread_cache, place, block))) front_free_overflow(place);
      return;
    }
    if (guarded) guard_free_far(block, inbox);
    else front_free_elsewhere(block, place);
    return;
  }
  front_free_slow(block);
}

HAK_INLINE void front_free(void *block) { front_free_in(block, guard_is_on()); }

#endif
