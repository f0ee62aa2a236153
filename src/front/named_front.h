/* named_front.h - allocation from named heaps (heap/named.h). Sizes in bytes; failures are NULL with ENOMEM. */
#ifndef HAK_NAMED_FRONT_H
#define HAK_NAMED_FRONT_H

#include "front/block.h"
#include "heap/named.h"

/** `size` bytes at a multiple of `alignment`, a power of two; `zero`: they read as zeros. */
void *front_named_allocate(struct hak_heap *named, size_t alignment, size_t size, bool zero);

/** The named heap of a block that was found, NULL: it is in none. */
struct hak_heap *front_named_of(const struct block *block, const void *pointer);

#endif
