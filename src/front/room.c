/* room.c - hak_room: how many bytes are left of the live block that an address lies in.
 *
 * For who is about to write there (src/copies), so in constant time, without a lock, in any thread, and for any address. What it finds
 * is as good as the address: who has a block got it from who allocated it, with all that is said of it here.
 */
#include "front/full.h"
#include "sample/guarded.h"

/* Where a block of a slab starts that lives; NULL: none does. */
static const char *start_in_slab(struct block *block, const char *pointer) {
  const char *base = slab_base(block->slab);
  uint32_t size = slab_block_size(block->slab), offset = (uint32_t)(pointer - base);
  if (HAK_UNLIKELY(size == 0))
    return NULL; /* a slab that is being made: nobody has a block of it */
  uint32_t number = offset / size;
  const char *start = base + (size_t)number * size;
  if (number >= slab_carved(block->slab) || !guard_is_live(start)) return NULL;
  /* Of a sample the slot's end: what an ordinary block would have is known under a lock alone. */
  block->tier = sample_has(block->slab) ? BLOCK_SAMPLE : BLOCK_SMALL;
  block->usable = size;
  return start;
}

static const char *start_of_large(struct block *block) {
  if (atomic_load_explicit(&block->slab->kind, memory_order_relaxed) != KIND_LARGE) return NULL;
  block->tier = BLOCK_LARGE;
  block->usable = span_usable(block->slab);
  return slab_base(block->slab);
}

static const char *start_in_superslab(struct block *block, const char *pointer) {
  struct superslab *superslab = block->superslab;
  if (superslab->huge_units != 0) {
    block->tier = BLOCK_HUGE;
    block->usable = superslab->huge_usable;
    return superslab->base;
  }
  struct slab *slab = &superslab->slabs[(size_t)(pointer - superslab->base) >> SLICE_SHIFT];
  uint8_t kind = atomic_load_explicit(&slab->kind, memory_order_relaxed);
  if (kind == KIND_FREE) return NULL;
  block->slab = slab_head(slab);
  return kind == KIND_SLAB ? start_in_slab(block, pointer) : start_of_large(block);
}

size_t front_room(const void *pointer) {
  struct block block = {.superslab = map_superslab(pointer)};
  const char *start;
  if (block.superslab != NULL) {
    start = start_in_superslab(&block, pointer);
  } else {
    if (HAK_LIKELY(!guarded_has(pointer))) return SIZE_MAX;
    block.tier = BLOCK_GUARDED;
    start = guarded_start(pointer, &block.usable);
  }
  if (start == NULL) return 0;
  size_t size = full_is_on() ? full_size_told(&block, start) : block.usable;
  size_t offset = (size_t)((const char *)pointer - start);
  return offset < size ? size - offset : 0;
}
