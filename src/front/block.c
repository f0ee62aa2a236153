/* block.c - see block.h. */
#include "front/block.h"

#include "front/guard.h"
#include "observe/report.h"

static const char *judge_small(const struct slab *slab, const void *pointer) {
  size_t offset = (size_t)((const char *)pointer - slab_base(slab));
  uint32_t size = slab_block_size(slab);
  if (offset % size != 0) return REPORT_INTERIOR;
  if (offset / size >= slab_carved(slab)) return REPORT_FOREIGN;
#if HAK_HARDENED
  if (!guard_is_live(pointer)) return REPORT_DOUBLE_FREE;
#endif
  return NULL;
}

struct block block_find(const void *pointer) {
  struct block block = {.wrong = REPORT_FOREIGN};
  struct superslab *superslab = map_superslab(pointer);
  if (superslab == NULL) return block;
  block.superslab = superslab;
  if (superslab->huge_units != 0) {
    block.tier = BLOCK_HUGE;
    block.usable = superslab->huge_usable;
    block.wrong = pointer == superslab->base ? NULL : REPORT_INTERIOR;
    return block;
  }
  size_t index = (size_t)((const char *)pointer - superslab->base) >> SLICE_SHIFT;
  struct slab *slab = &superslab->slabs[index];
  enum slab_kind kind = atomic_load_explicit(&slab->kind, memory_order_relaxed);
  if (kind == KIND_FREE) {
    block.wrong = REPORT_DOUBLE_FREE;
    return block;
  }
  block.slab = slab = slab_head(slab);
  if (kind == KIND_SLAB) {
    block.tier = BLOCK_SMALL;
    block.usable = slab_block_size(slab);
    block.wrong = judge_small(slab, pointer);
  } else {
    block.tier = BLOCK_LARGE;
    block.usable = (size_t)slab->slices << SLICE_SHIFT;
    kind = atomic_load_explicit(&slab->kind, memory_order_relaxed);
    block.wrong = pointer != slab_base(slab) ? REPORT_INTERIOR
                  : kind >= KIND_CACHED      ? REPORT_DOUBLE_FREE
                                             : NULL;
  }
  return block;
}

bool block_is_ours(const void *pointer) {
  struct superslab *superslab = map_superslab(pointer);
  if (superslab == NULL) return false;
  if (superslab->huge_units != 0)
    return (size_t)((const char *)pointer - superslab->base) < superslab->huge_usable;
  size_t index = (size_t)((const char *)pointer - superslab->base) >> SLICE_SHIFT;
  uint8_t kind = atomic_load_explicit(&superslab->slabs[index].kind, memory_order_relaxed);
  return kind == KIND_SLAB || kind == KIND_LARGE;
}
