/* named_walk.c - the live blocks of a named heap; see named.h. */
#include "heap/engine.h"
#include "heap/named.h"
#include "slab/holes.h"

static size_t usable_of_span(const struct slab *descriptor) {
  const struct superslab *superslab = superslab_of(descriptor);
  return superslab->huge_units != 0 ? superslab->huge_usable : span_usable(descriptor);
}

static void *start_of_span(const struct slab *descriptor) {
  const struct superslab *superslab = superslab_of(descriptor);
  return superslab->huge_units != 0 ? superslab->base : slab_base(descriptor);
}

/* Which blocks of a slab are free, or were never made. */
struct free_map {
  uint64_t words[SLICE_BYTES / BLOCK_ALIGNMENT / 64];
};

static void mark(struct free_map *is_free, const struct slab *slab, const void *block) {
  uint32_t number =
      (uint32_t)((const char *)block - slab_base(slab)) / slab_block_size(slab);
  is_free->words[number / 64] |= UINT64_C(1) << number % 64;
}

/* Blocks that were freed and are in no slab's list yet. */
static void mark_bin(struct free_map *is_free, const struct heap *heap, const struct slab *slab) {
  for (void *block = heap->bins[slab->size_class].head; block != NULL; block = link_follow(block))
    if (slab_head(map_slab(block)) == slab) mark(is_free, slab, block);
}

static bool walk_slab(const struct heap *heap, const struct slab *slab, named_visit *visit,
                      void *argument) {
  struct free_map is_free = {{0}};
  uint32_t size = slab_block_size(slab);
  for (void *block = slab->free_list; block != NULL; block = link_follow(block))
    mark(&is_free, slab, block);
  mark_bin(&is_free, heap, slab);
  unsigned carved = slab_carved(slab);
  for (unsigned i = 0; i < carved; i++) {
    char *block = slab_base(slab) + (size_t)i * size;
    if ((is_free.words[i / 64] >> i % 64 & 1) == 0 && !hole_has(slab, i) && !visit(block, size, argument))
      return false;
  }
  return true;
}

static bool walk_list(const struct heap *heap, const struct slab *slab, const struct slab *end,
                      named_visit *visit, void *argument) {
  for (const struct slab *next; slab != end; slab = next) {
    next = slab->next;
    if (!walk_slab(heap, slab, visit, argument)) return false;
  }
  return true;
}

static bool walk_all(struct hak_heap *named, named_visit *visit, void *argument) {
  const struct heap *heap = &named->heap;
  for (unsigned c = 0; c < CLASS_COUNT; c++)
    if (!walk_list(heap, heap->classes[c].first, NULL, visit, argument) ||
        !walk_list(heap, heap->classes[c].given, NULL, visit, argument))
      return false;
  if (!walk_list(heap, named->full.next, &named->full, visit, argument)) return false;
  for (struct slab *span = named->blocks.next; span != &named->blocks; span = span->next)
    if (!visit(start_of_span(span), usable_of_span(span), argument)) return false;
  return true;
}

bool named_walk(struct hak_heap *named, named_visit *visit, void *argument) {
  /* The release engine has some slabs in its hands otherwise, in no list. */
  lock_acquire(&engine_batch_lock);
  named_lock(named);
  bool all = named->lost || walk_all(named, visit, argument);
  lock_release(&named->heap.lock);
  lock_release(&engine_batch_lock);
  return all;
}
