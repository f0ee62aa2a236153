/* front.h - what the api room calls beside the fast paths of fast.h.
 *
 * Sizes in bytes. Failures return NULL with errno ENOMEM; nothing else touches errno.
 */
#ifndef HAK_FRONT_H
#define HAK_FRONT_H

#include "front/block.h"
#include "front/fast.h"

/** `size` bytes of zeros. */
void *front_allocate_zeroed(size_t size);

/** `size` bytes at a multiple of `alignment`, a power of two. */
void *front_allocate_aligned(size_t alignment, size_t size);

/** Bytes from an address to the end of the live block that it lies in: hak_room. */
size_t front_room(const void *pointer);

/** Is a live block (or a pointer that is not ours) one of few in its slab, whose blocks have room elsewhere? Constant time, any
 * thread: a hint. See hak_should_move. */
bool front_should_move(const void *pointer);

/** Frees a block that was moved: past the bin, so that its place is not the next to be handed out. */
void front_free_moved(void *pointer);

/** malloc(0) in light and full: a block of no bytes (empty.h), counted. NULL: an ordinary one has to do. */
#if HAK_HARDENED
void *front_allocate_empty(void);
#else
HAK_INLINE void *front_allocate_empty(void) { return NULL; }
#endif

/** A block that is no sample, whatever the count says: it was asked. */
void *front_allocate_unsampled(size_t size);
/** A block that is a sample (is_sample was asked), as far as there is memory for that. */
void *front_allocate_as_sample(size_t size);

/** NULL with ENOMEM, and a black box (release/box.h): there is no memory. Holds no lock. */
void *front_no_memory(void);
/** NULL with ENOMEM, and no black box: it is no want of memory. Nothing has so many bytes, or a heap is at its own limit, or
 * lost. */
void *front_refuse(void);

/** Resizes a live block that block_find has found, in place, by moving its pages or by copying. */
void *front_reallocate(void *pointer, const struct block *block, size_t size);

/** Usable bytes of a block of a slab that the calling thread's bins are filled from, told by the map, and above ONE_SLICE_BLOCK_MAX by its slice's
 * descriptor; 0: block_find has to tell what it is. */
HAK_INLINE size_t front_own_usable(const void *pointer) {
  if (HAK_HARDENED || !map_has_entry(pointer)) return 0;
  struct inbox *inbox = map_inbox(pointer);
  size_t at = cache_place(thread_cache, inbox);
  if (!cache_keeps(at)) return 0;
  uint32_t bytes = class_sizes[at / sizeof(struct inbox)];
  uint32_t place = (uint32_t)((uintptr_t)pointer % SLICE_BYTES);
  /* In a slab of one slice a block's place follows from its address. */
  if (bytes > ONE_SLICE_BLOCK_MAX) place += (uint32_t)map_slab(pointer)->offset << SLICE_SHIFT;
  return place % bytes == 0 ? bytes : 0;
}

/** Would realloc leave a block of a slab where it is, whose class need not be known? */
HAK_INLINE bool front_small_stays(size_t usable, size_t size) {
  return size <= usable && size > usable / 2;
}

/** May realloc ask for a power of two where a block is to grow to this size? */
HAK_INLINE bool front_grows_to_power(size_t size) {
  return size > SMALL_MAX / 4 && size <= SMALL_MAX;
}

/** How much it asks for then, at most. */
HAK_INLINE size_t front_grown_most(size_t size) {
  if (front_grows_to_power(size)) return size > SMALL_MAX / 2 ? SMALL_MAX : SMALL_MAX / 2;
  return size + size / 8;
}

/** Resizes such a block. */
void *front_reallocate_own(void *pointer, size_t usable, size_t size);

/** Is this a live Large block that has as many slices as `size` bytes need, and its guard, if any, behind as many pages? */
HAK_INLINE bool front_large_stays(const void *pointer, size_t size) {
  const struct slab *span = map_slab(pointer);
  /* The descriptors of a Huge block's slices are those of free ones. */
  return span != NULL && atomic_load_explicit(&span->kind, memory_order_relaxed) == KIND_LARGE &&
         span->offset == 0 && (uintptr_t)pointer % SLICE_BYTES == 0 && size > SMALL_MAX &&
         (HAK_HARDENED && span->guarded != 0
              ? span_usable(span) - size < os_page_size()
              : (size + SLICE_BYTES - 1) >> SLICE_SHIFT == span->slices);
}

#endif
