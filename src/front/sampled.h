/* sampled.h - how the slow halves of malloc, free and realloc ask the sampler. For this room alone. */
#ifndef HAK_SAMPLED_H
#define HAK_SAMPLED_H

#include "front/block.h"
#include "front/control.h"
#include "release/beat.h"

/* Larger ones fail. With a tool's question (SAMPLE_LEFT_REQUESTED) they would count below what the number can hold. */
HAK_INLINE bool crosses(size_t size) { return size <= PTRDIFF_MAX / 4 && sample_crosses(size); }

/* Where a Large or Huge block's mark is; NULL for others. */
HAK_INLINE struct slab *descriptor_of(const struct block *block) {
  if (block->wrong != NULL || block->tier < BLOCK_LARGE) return NULL;
  return block->tier == BLOCK_LARGE ? block->slab : &block->superslab->slabs[0];
}

HAK_INLINE void mark_sample(void *pointer, size_t size) {
  struct block block = block_find(pointer);
  struct slab *descriptor = descriptor_of(&block);
  if (descriptor != NULL) sample_mark(descriptor, pointer, size);
}

/* As sample_lift; false as well where it was none. */
HAK_INLINE bool lift_sample(const struct block *block, void *pointer,
                            struct sample_record *record) {
  struct slab *descriptor = descriptor_of(block);
  return descriptor != NULL && sample_has(descriptor) && sample_lift(descriptor, pointer, record);
}

/* After sample_crosses. The thread may have been brought here for something else: a tool's question, or memory that waits. */
HAK_INLINE bool is_sample(size_t size) {
  if (sample_has_request()) control_answer();
  bool is_due = sample_is_due(size);
  if (release_has_beats() && cache_if_any() != NULL) release_beat(size);
  return is_due;
}

#endif
