/* quarantine.c - see quarantine.h. */
#include "heap/quarantine.h"

#if HAK_HARDENED

#include "heap/bins.h"
#include "heap/homes.h"
#include "heap/remote.h"
#include "heap/samples.h"
#include "heap/slabs.h"

/* One page of metadata for each thread. */
enum { QUARANTINE_BLOCKS = 448, PUTS = 256 };

struct quarantine {
  uint32_t count;
  uint32_t next; /* which one goes next, unless there are fewer by then */
  uint32_t puts; /* since `most` was found */
  size_t bytes, most;
  uint64_t draws; /* state of the generator */
  void *blocks[QUARANTINE_BLOCKS];
  uint8_t classes[QUARANTINE_BLOCKS];
};

static void release(struct heap *heap, void *block) {
  const uint64_t *words = block;
  if (HAK_UNLIKELY((words[0] | words[1]) != 0)) link_report(block);
  if (heap == &heap_samples) {
    heap_samples_return(slab_head(map_slab(block)), block);
    return;
  }
  struct bin *bin = map_bin(block);
  size_t place = heap_place(heap, bin);
  if (!heap_keeps(place)) remote_free(heap, bin, block);
  else if (bin_push(heap_bin_at(heap, place), block)) bin_overflow(heap, heap_bin_at(heap, place));
}

/* Whose turn it is is known a call ahead, so that it is in the cache by then: it was not touched for as long as it waits. */
static void draw_next(struct quarantine *quarantine) {
  /* A Weyl sequence mixed with secrets: one multiplication, and no line that other threads write. */
  quarantine->draws += UINT64_C(0x9e3779b97f4a7c15);
  uint64_t draw = link_fold(quarantine->draws, link_secret.multiply) >> 32;
  quarantine->next = (uint32_t)(draw * quarantine->count >> 32);
  __builtin_prefetch(quarantine->blocks[quarantine->next], 1);
}

static void release_one(struct heap *heap, struct quarantine *quarantine) {
  if (quarantine->next >= quarantine->count) draw_next(quarantine);
  uint32_t which = quarantine->next, last = --quarantine->count;
  void *block = quarantine->blocks[which];
  quarantine->bytes -= class_size(quarantine->classes[which]);
  quarantine->blocks[which] = quarantine->blocks[last];
  quarantine->classes[which] = quarantine->classes[last];
  if (last > 0) draw_next(quarantine);
  release(heap, block);
}

/* Threads that share a home share what one may keep, as their bins do. */
static size_t most_bytes(const struct heap *heap) {
  return (size_t)option_value(GUARD_QUARANTINE_KB) * KIB / homes_users(heap);
}

static struct quarantine *quarantine_of(struct heap *heap) {
  if (HAK_UNLIKELY(heap->quarantine == NULL)) {
    heap->quarantine = meta_allocate(sizeof(struct quarantine), 64);
    if (heap->quarantine == NULL) return NULL;
    heap->quarantine->draws = link_secret.code ^ (uintptr_t)heap;
  }
  if (heap->quarantine->puts++ % PUTS == 0) heap->quarantine->most = most_bytes(heap);
  return heap->quarantine;
}

void quarantine_put(struct heap *heap, void *block, unsigned size_class) {
  uint64_t *words = block;
  size_t size = class_size(size_class);
  words[0] = words[1] = 0; /* link_clear leaves them to the list that the block will be in */
  struct quarantine *quarantine = quarantine_of(heap);
  if (HAK_UNLIKELY(quarantine == NULL || size > quarantine->most)) {
    release(heap, block);
    return;
  }
  while (quarantine->count == QUARANTINE_BLOCKS ||
         (quarantine->count > 0 && quarantine->bytes + size > quarantine->most))
    release_one(heap, quarantine);
  quarantine->blocks[quarantine->count] = block;
  quarantine->classes[quarantine->count++] = (uint8_t)size_class;
  quarantine->bytes += size;
}

void quarantine_flush(struct heap *heap) {
  while (heap->quarantine != NULL && heap->quarantine->count > 0)
    release_one(heap, heap->quarantine);
}

/* A block that waits is free and holds zeros, which ends with the first link that is set: one that is there twice is found once. */
size_t quarantine_settle(struct heap *heap) {
  struct quarantine *quarantine = heap->quarantine;
  size_t lost = 0;
  if (quarantine == NULL) return 0;
  for (uint32_t i = 0; i < quarantine->count && i < QUARANTINE_BLOCKS; i++) {
    uint64_t *words = quarantine->blocks[i];
    unsigned size_class = quarantine->classes[i];
    const struct slab *slice = map_slab(words);
    if (slice != NULL && slice->size_class == size_class && map_bin(words) != NULL &&
        link_state(words) == STATE_FREE + size_class && (words[0] | words[1]) == 0) {
      link_set(words, NULL);
      slabs_put_mixed(heap, size_class, words, true);
    } else {
      lost += class_size(size_class);
    }
  }
  quarantine->count = 0;
  quarantine->bytes = 0;
  return lost;
}

#endif

typedef int quarantine_translation_unit_is_not_empty;
