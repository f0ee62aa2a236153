/* block.h - what a pointer is: tier, usable bytes, or what is wrong with it. For the paths that may
 * spend a division on being sure (realloc, malloc_usable_size, free off the fast path). */
#ifndef HAK_BLOCK_H
#define HAK_BLOCK_H

#include "front/guard.h"
#include "observe/report.h"
#include "sample/sample.h"
#include "slab/slab.h"
#include "superslab/map.h"

/* Empty ones are the hardened variant's alone (empty.h). */
enum block_tier { BLOCK_SMALL, BLOCK_SAMPLE, BLOCK_GUARDED, BLOCK_EMPTY, BLOCK_LARGE, BLOCK_HUGE };

struct block {
  const char *wrong; /* NULL, or one of REPORT_*: the other fields are not set then */
  enum block_tier tier;
  struct slab *slab; /* first descriptor of the span; NULL for Huge, guarded and empty ones */
  struct superslab *superslab;
  size_t usable; /* bytes; of a sample those of its slot: block_usable */
};

/* What is wrong with a pointer into a slab. */
HAK_INLINE const char *block_judge(const struct slab *slab, const void *pointer) {
  uint32_t offset = (uint32_t)((const char *)pointer - slab_base(slab));
  uint32_t size = slab_block_size(slab);
  if (offset % size != 0) return REPORT_INTERIOR;
  if (offset / size >= slab_carved(slab)) return REPORT_FOREIGN;
#if HAK_HARDENED
  if (!guard_is_live(pointer, slab->size_class)) return REPORT_DOUBLE_FREE;
#endif
  return NULL;
}

/** Of a pointer that no SuperSlab has: a guarded block, an empty one, or not ours. */
struct block block_outside(const void *pointer);

/** As block_find, inlined. */
HAK_INLINE struct block block_look_up(const void *pointer) {
  struct block block = {.wrong = REPORT_FOREIGN};
  struct superslab *superslab = map_superslab(pointer);
  if (HAK_UNLIKELY(superslab == NULL)) return block_outside(pointer);
  block.superslab = superslab;
  if (superslab->huge_units != 0) {
    block.tier = BLOCK_HUGE;
    block.usable = superslab->huge_usable;
    block.wrong = pointer == superslab->base ? NULL : REPORT_INTERIOR;
    return block;
  }
  size_t index = unit_slice_of(pointer);
  struct slab *slab = &superslab->slabs[index];
  enum slab_kind kind = atomic_load_explicit(&slab->kind, memory_order_relaxed);
  if (kind == KIND_FREE) {
    block.wrong = REPORT_DOUBLE_FREE;
    return block;
  }
  block.slab = slab = slab_head(slab);
  if (kind == KIND_SLAB) {
    block.tier = sample_has(slab) ? BLOCK_SAMPLE : BLOCK_SMALL;
    block.usable = slab_block_size(slab);
    block.wrong = block_judge(slab, pointer);
  } else {
    block.tier = BLOCK_LARGE;
    block.usable = span_usable(slab);
    kind = atomic_load_explicit(&slab->kind, memory_order_relaxed);
    block.wrong = pointer != slab_base(slab) ? REPORT_INTERIOR
                  : kind >= KIND_CACHED      ? REPORT_DOUBLE_FREE
                                             : NULL;
  }
  return block;
}

/** Bytes that the program may use of a block that was looked up. */
HAK_INLINE size_t block_usable(const struct block *block, const void *pointer) {
  return HAK_UNLIKELY(block->tier == BLOCK_SAMPLE) ? sample_usable(block->slab, pointer)
                                                   : block->usable;
}

/** Reports a pointer with which something is wrong, and ends the program; not where a guarded block's error is to be survived. */
void block_refuse(const char *function, const void *pointer, const char *wrong);

/** Never reads through `pointer`. Double free of small blocks is told in the hardened variant only. */
struct block block_find(const void *pointer);

/** True when the address lies in memory of ours that is handed out. */
bool block_is_ours(const void *pointer);

#endif
