/* quarantine.c - see quarantine.h. */
#include "heap/quarantine.h"

#if HAK_HARDENED

#include "heap/bins.h"
#include "heap/homes.h"
#include "heap/remote.h"
#include "heap/samples.h"
#include "heap/slabs.h"

/* One page of metadata for each thread. */
enum { QUARANTINE_BLOCKS = 448 };

struct quarantine {
  uint32_t count;
  size_t bytes, most; /* `most`: as it was when room was last made */
  uint64_t draws;     /* state of the generator */
  void *blocks[QUARANTINE_BLOCKS];
  uint8_t classes[QUARANTINE_BLOCKS];
};

/* All of it that was cleared: it may lie in a slab's list for long before it is handed out. */
static void check(void *block, unsigned size_class) {
  const uint64_t *words = block;
  const struct link_class *of = &link_classes[size_class];
  if (HAK_UNLIKELY((words[0] | words[1]) != 0)) link_report(block);
  if (of->steps3 < 0) link_look_far(block, link_zeros_end[size_class]);
  else if (of->steps3 > 0 && HAK_UNLIKELY(!link_is_zero_near(of, block))) link_report(block);
}

static void release(struct thread_cache *cache, void *block, unsigned size_class) {
  check(block, size_class);
  if (cache == NULL) {
    heap_samples_return(slab_head(map_slab(block)), block);
    return;
  }
  struct inbox *inbox = map_inbox(block);
  size_t place = cache_place(cache, inbox);
  if (!cache_keeps(place)) remote_free(cache, inbox, block);
  else if (bin_push(cache_bin_at(cache, place), block))
    bin_overflow(cache, cache_bin_at(cache, place));
}

static struct quarantine *of_samples; /* under heap_samples.lock */

static struct quarantine **place_of(struct thread_cache *cache) {
  return cache != NULL ? &cache->quarantine : &of_samples;
}

/* Threads that share an arena share what one may keep, as their bins do. */
static size_t most_bytes(const struct thread_cache *cache) {
  size_t most = (size_t)option_value(GUARD_QUARANTINE_KB) * KIB;
  return cache != NULL ? most / homes_users(cache->arena) : most;
}

static struct quarantine *make(struct thread_cache *cache) {
  struct quarantine **place = place_of(cache), *quarantine = *place;
  if (quarantine == NULL) {
    *place = quarantine = meta_allocate(sizeof(struct quarantine), 64);
    if (quarantine != NULL) quarantine->draws = link_secret.code ^ (uintptr_t)place;
  }
  return quarantine;
}

static uint32_t draw_below(struct quarantine *quarantine, uint32_t limit) {
  /* A Weyl sequence mixed with secrets: one multiplication, and no line that other threads write. */
  quarantine->draws += UINT64_C(0x9e3779b97f4a7c15);
  uint64_t draw = link_fold(quarantine->draws, link_secret.multiply) >> 32;
  return (uint32_t)(draw * limit >> 32);
}

/* Brings a block, chosen by chance among the first `count`, to their end, and into the processor's cache: nobody touched it for as long as it
 * waits. */
static void draw_to_end(struct quarantine *quarantine, uint32_t count) {
  uint32_t which = draw_below(quarantine, count), last = count - 1;
  void *block = quarantine->blocks[which];
  uint8_t size_class = quarantine->classes[which];
  quarantine->blocks[which] = quarantine->blocks[last];
  quarantine->classes[which] = quarantine->classes[last];
  quarantine->blocks[last] = block;
  quarantine->classes[last] = size_class;
  __builtin_prefetch(block, 1);
}

/* The last one. It leaves before it is released: a child of fork finds it twice nowhere. */
static void release_last(struct thread_cache *cache, struct quarantine *quarantine) {
  uint32_t last = --quarantine->count;
  quarantine->bytes -= class_size(quarantine->classes[last]);
  release(cache, quarantine->blocks[last], quarantine->classes[last]);
}

/* Several at a time, so that they come into the processor's cache together; one where few wait. */
static void release_some(struct thread_cache *cache, struct quarantine *quarantine) {
  enum { BATCH = 16 };
  uint32_t count = quarantine->count, batch = count / BATCH + 1 < BATCH ? count / BATCH + 1 : BATCH;
  for (uint32_t i = 0; i < batch; i++) draw_to_end(quarantine, count - i);
  for (uint32_t i = 0; i < batch; i++) release_last(cache, quarantine);
}

static bool has_room(const struct quarantine *quarantine, size_t size) {
  return quarantine->count < QUARANTINE_BLOCKS && quarantine->bytes + size <= quarantine->most;
}

/* False: a block of this size does not wait. */
static HAK_NOINLINE bool make_room(struct thread_cache *cache, size_t size) {
  struct quarantine *quarantine = make(cache);
  if (quarantine == NULL) return false;
  quarantine->most = most_bytes(cache);
  if (size > quarantine->most) return false;
  while (!has_room(quarantine, size)) release_some(cache, quarantine);
  return true;
}

void quarantine_put(struct thread_cache *cache, void *block, unsigned size_class) {
  uint64_t *words = block;
  size_t size = class_size(size_class);
  words[0] = words[1] = 0; /* link_clear leaves them to the list that the block will be in */
  struct quarantine *quarantine = *place_of(cache);
  if (HAK_UNLIKELY(quarantine == NULL || !has_room(quarantine, size))) {
    if (!make_room(cache, size)) {
      release(cache, block, size_class);
      return;
    }
    quarantine = *place_of(cache);
  }
  quarantine->blocks[quarantine->count] = block;
  quarantine->classes[quarantine->count++] = (uint8_t)size_class;
  quarantine->bytes += size;
}

void quarantine_flush(struct thread_cache *cache) {
  struct quarantine *quarantine = *place_of(cache);
  while (quarantine != NULL && quarantine->count > 0) release_last(cache, quarantine);
}

/* A block that waits is free and holds zeros, which ends with the first link that is set: one that is there twice is found once. */
size_t quarantine_settle(struct thread_cache *cache) {
  struct quarantine *quarantine = cache->quarantine;
  size_t lost = 0;
  if (quarantine == NULL) return 0;
  for (uint32_t i = 0; i < quarantine->count && i < QUARANTINE_BLOCKS; i++) {
    uint64_t *words = quarantine->blocks[i];
    unsigned size_class = quarantine->classes[i];
    const struct slab *slice = map_slab(words);
    if (slice != NULL && slice->size_class == size_class && map_inbox(words) != NULL &&
        link_is_free(words, size_class) && (words[0] | words[1]) == 0) {
      link_set(words, NULL);
      slabs_put_mixed(arena_beside(cache), size_class, words, true);
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
