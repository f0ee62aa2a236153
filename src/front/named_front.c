/* named_front.c - see named_front.h. */
#include "front/named_front.h"

#include <string.h>

#include "front/front.h"
#include "front/sampled.h"
#include "policy/options.h"
#include "release/background.h"
#include "release/release.h"

struct hak_heap *front_named_of(const struct block *block, const void *pointer) {
  if (block->wrong != NULL || (block->tier != BLOCK_SMALL && block->tier < BLOCK_LARGE))
    return NULL;
  if (block->tier != BLOCK_SMALL) return named_of_span(descriptor_of(block));
  struct inbox *inbox = map_inbox(pointer);
  return inbox != NULL ? named_of_inbox(inbox, block->slab->size_class) : NULL;
}

static void *allocate_small(struct hak_heap *named, unsigned size_class, bool zero) {
  bool refused;
  void *block = named_take(named, size_class, &refused);
  if (HAK_UNLIKELY(block == NULL)) {
    if (!refused && release_for_refused()) block = named_take(named, size_class, &refused);
    if (block == NULL) return refused ? front_refuse() : front_no_memory();
  }
  if (option_counting()) counters_add_shared(size_class, COUNT_SLOW);
  guard_allocated(block, size_class);
  if (zero && !guard_is_zero(block)) memset(block, 0, class_size(size_class));
  return block;
}

/* Not from the thread's cached spans: they may be longer, and what counts against the limit would depend on chance. */
static void *take_large(size_t alignment, size_t size, bool *zeroed) {
  void *pointer = large_allocate(NULL, size, alignment, zeroed);
  if (HAK_LIKELY(pointer != NULL) || !large_could_fit(size, alignment) || !release_for_refused())
    return pointer;
  pointer = large_allocate(NULL, size, alignment, zeroed);
  return pointer != NULL ? pointer : large_allocate_left(size, alignment, zeroed);
}

static void *allocate_large(struct hak_heap *named, size_t alignment, size_t size, bool zero) {
  bool zeroed;
  if (!named_may_grow(named, size)) return front_refuse();
  void *pointer = take_large(alignment, size, &zeroed);
  if (pointer == NULL) return front_no_memory();
  if (option_counting())
    counters_add_shared(large_is_huge(size, alignment) ? COUNTED_HUGE : COUNTED_LARGE, COUNT_SLOW);
  release_get_ready(false);
  struct block block = block_find(pointer);
  if (!named_keep(named, descriptor_of(&block), block.usable)) {
    front_free(pointer);
    return front_refuse();
  }
  if (zero && !zeroed) memset(pointer, 0, size);
  return pointer;
}

void *front_named_allocate(struct hak_heap *named, size_t alignment, size_t size, bool zero) {
  if (size > PTRDIFF_MAX) return front_refuse();
  bool ordinary = alignment <= BLOCK_ALIGNMENT && size <= SMALL_MAX;
  unsigned size_class = ordinary ? class_for(size) : class_for_aligned(size, alignment);
  return size_class < CLASS_COUNT ? allocate_small(named, size_class, zero)
                                  : allocate_large(named, alignment, size, zero);
}
