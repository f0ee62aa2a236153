/* quarantine.c - see quarantine.h. */
#include "heap/quarantine.h"

#if HAK_HARDENED

#include "heap/bins.h"
#include "heap/remote.h"

/* One page of metadata for each thread. */
enum { QUARANTINE_BLOCKS = 510 };

struct quarantine {
  uint32_t count;
  size_t bytes;
  void *blocks[QUARANTINE_BLOCKS];
};

static unsigned class_of(const void *block) { return link_state(block) - STATE_FREE; }

static void release(struct heap *heap, void *block) {
  const uint64_t *words = block;
  if (HAK_UNLIKELY((words[0] | words[1]) != 0)) link_report(block);
  struct bin *bin = map_bin(block);
  if (!heap_has_bin(heap, bin)) remote_free(heap, bin, block);
  else if (bin_push(bin, block)) bin_overflow(heap, bin);
}

static void release_one(struct heap *heap, struct quarantine *quarantine) {
  uint32_t which = link_draw(quarantine->count);
  void *block = quarantine->blocks[which];
  quarantine->blocks[which] = quarantine->blocks[--quarantine->count];
  quarantine->bytes -= class_size(class_of(block));
  release(heap, block);
}

/* More heaps than FEW_HEAPS share what so many may keep, as their bins do. */
static size_t most_bytes(void) {
  uint64_t active = heap_active();
  size_t most = (size_t)option_value(GUARD_QUARANTINE_KB) * KIB;
  return active > FEW_HEAPS ? most * FEW_HEAPS / active : most;
}

void quarantine_put(struct heap *heap, void *block, unsigned size_class) {
  uint64_t *words = block;
  size_t size = class_size(size_class), most = most_bytes();
  words[0] = words[1] = 0; /* link_clear leaves them to the list that the block will be in */
  if (heap->quarantine == NULL && size <= most)
    heap->quarantine = meta_allocate(sizeof(struct quarantine), 64);
  struct quarantine *quarantine = heap->quarantine;
  if (quarantine == NULL || size > most) {
    release(heap, block);
    return;
  }
  while (quarantine->count == QUARANTINE_BLOCKS ||
         (quarantine->count > 0 && quarantine->bytes + size > most))
    release_one(heap, quarantine);
  quarantine->blocks[quarantine->count++] = block;
  quarantine->bytes += size;
}

void quarantine_flush(struct heap *heap) {
  while (heap->quarantine != NULL && heap->quarantine->count > 0)
    release_one(heap, heap->quarantine);
}

#endif

typedef int quarantine_translation_unit_is_not_empty;
