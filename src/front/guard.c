/* guard.c - see guard.h. */
#include "front/guard.h"

#if HAK_HARDENED

#include "front/block.h"
#include "observe/report.h"

static _Atomic(uint64_t) *word_of(const void *block, uint64_t *bit) {
  struct superslab *superslab = map_superslab(block);
  size_t granule = (size_t)((const char *)block - superslab->base) / BLOCK_ALIGNMENT;
  *bit = UINT64_C(1) << (granule % 64);
  return &superslab->guard_bits[granule / 64];
}

void guard_allocated(void *block) {
  uint64_t bit;
  _Atomic(uint64_t) *word = word_of(block, &bit);
  /* relaxed: the block's owner passes the pointer on by its own synchronisation */
  uint64_t before = atomic_fetch_or_explicit(word, bit, memory_order_relaxed);
  if (HAK_UNLIKELY((before & bit) != 0)) report_corruption("a live block was handed out again");
}

void guard_freed(void *pointer) {
  if (!map_has_entry(pointer)) return;
  if (map_bin(pointer) == NULL) return;
  struct block block = block_find(pointer);
  if (block.wrong != NULL) report_bad_pointer("free", pointer, block.wrong);
  uint64_t bit;
  _Atomic(uint64_t) *word = word_of(pointer, &bit);
  uint64_t before = atomic_fetch_and_explicit(word, ~bit, memory_order_relaxed);
  if (HAK_UNLIKELY((before & bit) == 0)) report_bad_pointer("free", pointer, REPORT_DOUBLE_FREE);
}

bool guard_is_live(const void *pointer) {
  uint64_t bit;
  _Atomic(uint64_t) *word = word_of(pointer, &bit);
  return (atomic_load_explicit(word, memory_order_relaxed) & bit) != 0;
}

#endif

typedef int guard_translation_unit_is_not_empty;
