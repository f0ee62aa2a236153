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

/** Resizes a live block that block_find has found, in place, by moving its pages or by copying. */
void *front_reallocate(void *pointer, const struct block *block, size_t size);

#endif
