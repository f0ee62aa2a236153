/* large.h - blocks above 64 KiB: Large (spans of slices, to 1 MiB) and Huge (units of their own).
 *
 * `cache` is where the calling thread keeps a few freed spans (heap/heap.h gives it); NULL for a
 * thread without a heap. All sizes in bytes; failures are NULL or false, errno is kept.
 */
#ifndef HAK_LARGE_H
#define HAK_LARGE_H

#include "large/span_cache.h"

/** Does such a request get a Huge block? */
HAK_INLINE bool large_is_huge(size_t bytes, size_t alignment) {
  /* Fenced, the first slice of a unit is no block's, and a span has up to 17. */
  size_t most = guard_pages_wanted() ? UNIT_BYTES / 4 : UNIT_BYTES;
  return bytes > LARGE_MAX || alignment > most;
}

/** A block of more than 64 KiB, or of any size with an alignment that no slab has. `*zeroed`: reads as
 * zeros. */
void *large_allocate(struct span_cache *cache, size_t bytes, size_t alignment, bool *zeroed);

/** After a refusal, when all that is free was given back: what there is, in the hardened variant without some of the guards
 * (span_acquire_left, huge_acquire_unfenced). NULL: nothing. */
void *large_allocate_left(size_t bytes, size_t alignment, bool *zeroed);

/** After a refusal: might it be had once all that is free was given back? */
bool large_could_fit(size_t bytes, size_t alignment);

/** Frees a Large block; `span` is its first descriptor. False when it is free already: of two threads that
 * free it, one gets true. */
bool large_free(struct span_cache *cache, struct slab *span);

/** Makes a Large block at least `bytes` long where it is, or gives slices back. */
bool large_resize(struct slab *span, size_t bytes);

#endif
