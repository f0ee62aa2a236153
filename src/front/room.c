/* room.c - hak_room: how many bytes are left of the live block that an address lies in.
 *
 * For who is about to write there (src/copies), so in constant time, without waiting for a lock, in any thread, and for any address. What it finds
 * is as good as the address: who has a block got it from who allocated it, with all that is said of it here. What is rare is in
 * functions of its own, so that the others save no register.
 */
#include "front/empty.h"
#include "front/full.h"
#include "sample/guarded.h"

static size_t left_of(size_t size, size_t offset) { return offset < size ? size - offset : 0; }

static size_t room_in_full(const struct block *block, const char *start, size_t offset) {
  return left_of(full_size_told(block, start), offset);
}

/* In another mode than light, or of a sample. */
static HAK_NOINLINE size_t room_in_small(struct slab *slab, const char *start, size_t offset) {
  bool sample = sample_has(slab);
  struct block block = {
      .tier = sample ? BLOCK_SAMPLE : BLOCK_SMALL, .slab = slab, .usable = slab_block_size(slab)};
  if (full_is_on()) return room_in_full(&block, start, offset);
  return left_of(sample ? sample_usable_at_once(slab, start) : block.usable, offset);
}

static HAK_COLD size_t room_outside(const char *pointer) {
  if (empty_has(pointer)) return 0;
  size_t usable;
  const char *start = guarded_start(pointer, &usable);
  if (start == NULL) return 0;
  size_t offset = (size_t)(pointer - start);
  struct block block = {.tier = BLOCK_GUARDED, .usable = usable};
  return full_is_on() ? room_in_full(&block, start, offset) : usable - offset;
}

static HAK_NOINLINE size_t room_in_huge(struct superslab *superslab, const char *pointer) {
  const char *start = superslab->base;
  size_t offset = (size_t)(pointer - start);
  /* Not mapped by us: whoever has it got it from the kernel. */
  if (HAK_UNLIKELY(offset >= superslab->huge_usable && superslab->huge_cuts != 0)) return SIZE_MAX;
  struct block block = {
      .tier = BLOCK_HUGE, .superslab = superslab, .usable = superslab->huge_usable};
  return full_is_on() ? room_in_full(&block, start, offset) : left_of(block.usable, offset);
}

static HAK_NOINLINE size_t room_in_large(struct slab *slab, const char *pointer) {
  /* A freed one is in a cache, or its slices are free. */
  if (atomic_load_explicit(&slab->kind, memory_order_relaxed) != KIND_LARGE) return 0;
  const char *start = slab_base(slab);
  size_t offset = (size_t)(pointer - start);
  struct block block = {.tier = BLOCK_LARGE, .slab = slab, .usable = span_usable(slab)};
  return full_is_on() ? room_in_full(&block, start, offset) : left_of(block.usable, offset);
}

size_t front_room(const void *pointer) {
  struct superslab *superslab = map_superslab(pointer);
  if (superslab == NULL)
    return HAK_LIKELY(!guarded_has(pointer) && !empty_has(pointer)) ? SIZE_MAX
                                                                    : room_outside(pointer);
  if (HAK_UNLIKELY(superslab->huge_units != 0)) return room_in_huge(superslab, pointer);
  uint32_t offset = (uint32_t)((uintptr_t)pointer & (UNIT_BYTES - 1));
  struct slab *slab = &superslab->slabs[offset >> SLICE_SHIFT];
  uint8_t kind = atomic_load_explicit(&slab->kind, memory_order_relaxed);
  if (HAK_UNLIKELY(kind == KIND_FREE)) return 0;
  slab = slab_head(slab);
  if (HAK_UNLIKELY(kind != KIND_SLAB)) return room_in_large(slab, pointer);
  uint32_t size = slab_block_size(slab);
  if (HAK_UNLIKELY(size == 0)) return 0; /* a slab that is being made: nobody has a block of it */
  offset -= (uint32_t)slab->index << SLICE_SHIFT;
  uint32_t inside = offset % size;
  const char *start = (const char *)pointer - inside;
  if (HAK_UNLIKELY(offset / size >= slab_carved(slab) || !guard_is_live(start, slab->size_class)))
    return 0;
  if (full_may_be_on() || sample_has(slab)) return room_in_small(slab, start, inside);
  return size - inside;
}
