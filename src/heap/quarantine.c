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

static void release(struct thread_cache *cache, void *block) {
  const uint64_t *words = block;
  if (HAK_UNLIKELY((words[0] | words[1]) != 0)) link_report(block);
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

/* Whose turn it is is known a call ahead, so that it is in the cache by then: it was not touched for as long as it waits. */
static void draw_next(struct quarantine *quarantine) {
  /* A Weyl sequence mixed with secrets: one multiplication, and no line that other threads write. */
  quarantine->draws += UINT64_C(0x9e3779b97f4a7c15);
  uint64_t draw = link_fold(quarantine->draws, link_secret.multiply) >> 32;
  quarantine->next = (uint32_t)(draw * quarantine->count >> 32);
  __builtin_prefetch(quarantine->blocks[quarantine->next], 1);
}

static void release_one(struct thread_cache *cache, struct quarantine *quarantine) {
  if (quarantine->next >= quarantine->count) draw_next(quarantine);
  uint32_t which = quarantine->next, last = --quarantine->count;
  void *block = quarantine->blocks[which];
  quarantine->bytes -= class_size(quarantine->classes[which]);
  quarantine->blocks[which] = quarantine->blocks[last];
  quarantine->classes[which] = quarantine->classes[last];
  if (last > 0) draw_next(quarantine);
  release(cache, block);
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

static struct quarantine *quarantine_of(struct thread_cache *cache) {
  struct quarantine **place = place_of(cache), *quarantine = *place;
  if (HAK_UNLIKELY(quarantine == NULL)) {
    *place = quarantine = meta_allocate(sizeof(struct quarantine), 64);
    if (quarantine == NULL) return NULL;
    quarantine->draws = link_secret.code ^ (uintptr_t)place;
  }
  if (quarantine->puts++ % PUTS == 0) quarantine->most = most_bytes(cache);
  return quarantine;
}

void quarantine_put(struct thread_cache *cache, void *block, unsigned size_class) {
  uint64_t *words = block;
  size_t size = class_size(size_class);
  words[0] = words[1] = 0; /* link_clear leaves them to the list that the block will be in */
  struct quarantine *quarantine = quarantine_of(cache);
  if (HAK_UNLIKELY(quarantine == NULL || size > quarantine->most)) {
    release(cache, block);
    return;
  }
  while (quarantine->count == QUARANTINE_BLOCKS ||
         (quarantine->count > 0 && quarantine->bytes + size > quarantine->most))
    release_one(cache, quarantine);
  quarantine->blocks[quarantine->count] = block;
  quarantine->classes[quarantine->count++] = (uint8_t)size_class;
  quarantine->bytes += size;
}

void quarantine_flush(struct thread_cache *cache) {
  struct quarantine *quarantine = *place_of(cache);
  while (quarantine != NULL && quarantine->count > 0) release_one(cache, quarantine);
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
