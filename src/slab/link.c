/* link.c - see link.h. */
#include "slab/link.h"

#if HAK_HARDENED

#include "observe/report.h"
#include "os/os.h"
#include "slab/slab.h"

struct link_secret link_secret;

void link_start(void) {
  uint64_t numbers[2] = {0};
  os_random(numbers);
  link_secret = (struct link_secret){.add = numbers[0], .multiply = numbers[1] | 1};
}

static bool is_live(const struct superslab *superslab, const void *block) {
  size_t granule = (size_t)((const char *)block - superslab->base) / BLOCK_ALIGNMENT;
  /* relaxed: whoever put the block into this list has marked it as free, and handed the list on with what orders that */
  uint64_t word = atomic_load_explicit(&superslab->guard_bits[granule / 64], memory_order_relaxed);
  return (word >> granule % 64 & 1) != 0;
}

static bool is_free_block(const void *block, unsigned size_class) {
  struct superslab *superslab = map_superslab(block);
  if (superslab == NULL || superslab->huge_units != 0) return false;
  struct slab *slab = slab_head(map_slab(block));
  uint32_t size = slab_block_size(slab), offset = (uint32_t)((const char *)block - slab_base(slab));
  return slab->size_class == size_class && size != 0 && offset % size == 0 &&
         offset / size < slab_carved(slab) && !is_live(superslab, block);
}

void link_check(const void *block, const void *next) {
  if (next == NULL) return;
  if (HAK_UNLIKELY(!is_free_block(next, slab_head(map_slab(block))->size_class)))
    report_bad_pointer("malloc", block, REPORT_WRITTEN_AFTER);
}

#endif

typedef int link_translation_unit_is_not_empty;
