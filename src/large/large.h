/* large.h - blocks above 64 KiB: Large (spans of slices, to 1 MiB) and Huge (units of their own).
 *
 * `cache` is where the calling thread keeps a few freed spans (front/heap.h gives it); NULL for a
 * thread without a heap. All sizes in bytes; failures are NULL or false, errno is kept.
 */
#ifndef HAK_LARGE_H
#define HAK_LARGE_H

#include "superslab/superslab.h"

#define LARGE_MAX ((size_t)1 * MIB)

/* A thread's freed spans, youngest last. Only its thread touches it. */
struct span_cache {
  struct slab *spans[8]; /* 8 spans, 8 MiB at most: more raised peak memory and saved no time */
  uint32_t count;
};

/** Does such a request get a Huge block? */
HAK_INLINE bool large_is_huge(size_t bytes, size_t alignment) {
  return bytes > LARGE_MAX || alignment > UNIT_BYTES;
}

/** A block of more than 64 KiB, or of any size with an alignment that no slab has. `*zeroed`: reads as
 * zeros. */
void *large_allocate(struct span_cache *cache, size_t bytes, size_t alignment, bool *zeroed);

/** Frees a Large block; `span` is its first descriptor. False when it is free already: of two threads that
 * free it, one gets true. */
bool large_free(struct span_cache *cache, struct slab *span);

/** Makes a Large block at least `bytes` long where it is, or gives slices back. */
bool large_resize(struct slab *span, size_t bytes);

/** Gives all cached spans back. */
size_t span_cache_flush(struct span_cache *cache);

#endif
