/* full.c - see full.h. */
#include "front/full.h"

#if HAK_HARDENED

#include <string.h>

#include "heap/named.h"
#include "heap/quarantine.h"
#include "heap/remote.h"
#include "release/background.h"
#include "release/marks.h"

/* The canary is one word. Its lowest bits say how many bytes before it are not the program's, of which there are less than 1 MiB. */
enum { CANARY_BYTES = sizeof(uint64_t), UNUSED_BITS = 20 };
#define UNUSED_MASK ((UINT64_C(1) << UNUSED_BITS) - 1)

bool full_find_mode(void) {
  if (link_mode == LINK_MODE_UNKNOWN) heap_start();
  return link_mode == LINK_MODE_FULL;
}

/* What is added to a block's address for the mask of its end: no link's. */
enum { END_OFFSET = 1 };

static uint64_t end_mask(const void *block) { return link_mask((const char *)block + END_OFFSET); }

static uint64_t canary_from(uint64_t mask, uint64_t unused) {
  return (link_fold(unused ^ link_secret.code, mask | 1) << UNUSED_BITS | unused) ^ mask;
}

static uint64_t canary_of(const void *block, uint64_t unused) {
  return canary_from(end_mask(block), unused);
}

/* A word of the byte that fills what the program has not asked for: never 0, which strings end with. */
static uint64_t filler_from(uint64_t mask) {
  return (mask >> (64 - 8) | 1) * UINT64_C(0x0101010101010101);
}

/* Of a sample its slot: how much an ordinary block of its size would have is not known in every child of a fork. */
static size_t room_of(const struct block *block) {
  return block->tier == BLOCK_SAMPLE ? slab_block_size(block->slab) : block->usable;
}

static bool is_small(const struct block *block) { return block->tier <= BLOCK_GUARDED; }

/* A Large or Huge block that ends with its last page has a guard in its canary's place. */
static bool ends_at_guard(size_t room, size_t size) { return room == size; }

/* Where it is kept how much was asked for of a Large or Huge block: in words that only free spans and slabs use. */
static void **size_entry(const struct block *block) {
  struct slab *slab = block->tier == BLOCK_LARGE ? block->slab : &block->superslab->slabs[0];
  return &slab->free_list;
}

/* Bytes of a live block of a thread's slab, 0: it is none. */
static size_t room_of_small(const void *pointer) {
  const struct inbox *inbox = map_has_entry(pointer) ? map_inbox(pointer) : NULL;
  if (inbox == NULL) return 0;
  unsigned size_class = guard_class_of(pointer, inbox);
  return link_state(pointer, size_class) >= STATE_LIVE ? class_size(size_class) : 0;
}

/* The `bits` of a word that come first in memory; above 0. */
static uint64_t first_bytes(uint64_t word, unsigned bits) {
  return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? word << (64 - bits) : word >> (64 - bits);
}

static void put_word(char *to, uint64_t word) { memcpy(to, &word, sizeof word); }

static uint64_t word_at(const char *from) {
  uint64_t word;
  memcpy(&word, from, sizeof word);
  return word;
}

/* Of what is unused so much is filled, from its first byte on. Of a block that is small for its alignment all of it would be in memory for that:
 * 64 KiB for 100 bytes at a multiple of 64 KiB. */
enum { FILLED_MOST = 2048 };
static size_t filled_of(size_t unused) { return unused < FILLED_MOST ? unused : FILLED_MOST; }

/* The last word of what is unused may reach into the canary, which comes after it. */
static void set_small_end(void *pointer, size_t room, size_t size) {
  char *end = (char *)pointer + room - CANARY_BYTES, *at = (char *)pointer + size;
  char *filled_end = at + filled_of((size_t)(end - at));
  uint64_t mask = end_mask(pointer), filler = filler_from(mask);
  for (; at < filled_end; at += sizeof filler) put_word(at, filler);
  put_word(end, canary_from(mask, room - CANARY_BYTES - size));
}

/* The size of a block that ends as it should, SIZE_MAX: it does not. */
static size_t size_of_small(const void *pointer, size_t room) {
  const char *end = (const char *)pointer + room - CANARY_BYTES;
  uint64_t mask = end_mask(pointer), canary = word_at(end);
  uint64_t unused = (canary ^ mask) & UNUSED_MASK;
  if (unused > room - CANARY_BYTES || canary != canary_from(mask, unused)) return SIZE_MAX;
  uint64_t filler = filler_from(mask), other = 0;
  const char *at = end - unused, *filled_end = at + filled_of(unused);
  for (; filled_end - at >= (ptrdiff_t)sizeof filler; at += sizeof filler)
    other |= word_at(at) ^ filler;
  unsigned left = (unsigned)(filled_end - at) * 8;
  if (left > 0) other |= first_bytes(word_at(at) ^ filler, left);
  return other == 0 ? room - CANARY_BYTES - unused : SIZE_MAX;
}

void full_set_end(void *pointer, size_t size) {
  size_t room = room_of_small(pointer);
  if (HAK_LIKELY(room != 0)) {
    set_small_end(pointer, room, size);
    return;
  }
  struct block block = block_find(pointer);
  if (is_small(&block)) {
    set_small_end(pointer, room_of(&block), size);
  } else {
    *size_entry(&block) = (void *)size;
    if (!ends_at_guard(block.usable, size)) put_word((char *)pointer + size, canary_of(pointer, 0));
  }
}

/* As size_of_small. */
static size_t size_of(const struct block *block, const void *pointer) {
  if (block->tier == BLOCK_EMPTY) return 0;
  size_t room = room_of(block);
  if (is_small(block)) return size_of_small(pointer, room);
  size_t size = (size_t)*size_entry(block);
  if (ends_at_guard(room, size)) return size;
  if (size > room - CANARY_BYTES) return SIZE_MAX;
  return word_at((const char *)pointer + size) == canary_of(pointer, 0) ? size : SIZE_MAX;
}

size_t full_size(const char *function, const struct block *block, const void *pointer) {
  size_t size = size_of(block, pointer);
  if (HAK_UNLIKELY(size == SIZE_MAX)) report_bad_pointer(function, pointer, REPORT_WRITTEN_BEYOND);
  return size;
}

size_t full_size_told(const struct block *block, const void *pointer) {
  if (block->tier == BLOCK_EMPTY) return 0;
  size_t room = room_of(block), most = room - CANARY_BYTES;
  if (!is_small(block)) {
    size_t size = (size_t)*size_entry(block);
    return size <= room ? size : 0;
  }
  uint64_t mask = end_mask(pointer), canary = word_at((const char *)pointer + most);
  uint64_t unused = (canary ^ mask) & UNUSED_MASK;
  return unused <= most && canary == canary_from(mask, unused) ? most - unused : 0;
}

size_t full_room(size_t size) {
  if (size > SMALL_MAX && size % os_page_size() == 0 && guard_pages_wanted()) return size;
  return size <= PTRDIFF_MAX - CANARY_BYTES ? size + CANARY_BYTES : 0;
}

void *full_allocate(size_t alignment, size_t size, bool zero) {
  void *empty = size == 0 && alignment <= BLOCK_ALIGNMENT ? front_allocate_empty() : NULL;
  if (empty != NULL) return empty;
  size_t room = full_room(size);
  if (room == 0) return front_refuse();
  void *block = zero                           ? front_allocate_zeroed(room)
                : alignment <= BLOCK_ALIGNMENT ? front_allocate(room)
                                               : front_allocate_aligned(alignment, room);
  if (block != NULL) full_set_end(block, size);
  return block;
}

static void free_other(void *pointer, bool was_checked) {
  struct block block = block_look_up(pointer);
  if (HAK_LIKELY(block.wrong == NULL)) {
    if (!was_checked) (void)full_size("free", &block, pointer);
    if (block.tier >= BLOCK_LARGE) *size_entry(&block) = NULL;
  }
  front_free(pointer); /* says what is wrong */
}

/* `was_checked`: its end, which is not there any more. */
HAK_INLINE void put_away(void *pointer, bool was_checked) {
  struct inbox *inbox = map_has_entry(pointer) ? map_inbox(pointer) : NULL;
  struct thread_cache *cache = cache_of_thread();
  unsigned size_class = inbox != NULL ? guard_class_of(pointer, inbox) : 0;
  _Atomic uint8_t *state;
  if (HAK_UNLIKELY(inbox == NULL || cache == NULL ||
                   !guard_live(&link_classes[size_class], pointer, &state))) {
    free_other(pointer, was_checked);
    return;
  }
  if (HAK_UNLIKELY(!was_checked && size_of_small(pointer, class_size(size_class)) == SIZE_MAX))
    report_bad_pointer("free", pointer, REPORT_WRITTEN_BEYOND);
  link_clear(pointer, size_class);
  guard_set_free(state, size_class);
  /* What waits must not outlive a heap that is destroyed. */
  if (HAK_UNLIKELY(named_of_inbox(inbox, size_class) != NULL)) remote_free(cache, inbox, pointer);
  else quarantine_put(cache, pointer, size_class);
  release_answer(cache);
}

void full_free(void *pointer) {
  if (pointer != NULL) put_away(pointer, false);
}

void full_retire(void *pointer) { put_away(pointer, true); }

HAK_NOINLINE void *full_or_other_allocate(size_t size) {
  return full_find_mode() ? full_allocate(BLOCK_ALIGNMENT, size, false) : front_allocate(size);
}

/* Other modes than light have no bins where malloc's and free's fast paths look for them: their calls come here. The size was counted towards the
 * next sample; what full adds to it is, unless all of it is counted again. */
static HAK_NOINLINE void *other_allocate_counted(size_t size) {
  size_t room = size + CANARY_BYTES;
  if (HAK_UNLIKELY(link_mode != LINK_MODE_FULL || size == 0 || room > TABLE_MAX ||
                   malloc_thread.sample_left < 0 || sample_crosses(CANARY_BYTES))) {
    malloc_thread.sample_left += (int64_t)size;
    return full_or_other_allocate(size);
  }
  size_t place = class_place_for(room);
  struct bin *bin = cache_bin_at(thread_cache, place);
  if (HAK_LIKELY(bin->head != NULL)) {
    void *block = bin_hand_out(bin, place);
    set_small_end(block, class_size((unsigned)(place / sizeof(struct bin))), size);
    return block;
  }
  void *block = front_allocate_slow(room);
  if (block != NULL) full_set_end(block, size);
  return block;
}

HAK_NOINLINE void *full_or_slow(size_t size) {
  return full_may_be_on() ? other_allocate_counted(size) : front_allocate_slow(size);
}

HAK_NOINLINE void *full_or_sample(size_t size) {
  return full_may_be_on() ? other_allocate_counted(size) : front_allocate_sample(size);
}

HAK_NOINLINE void *full_or_beyond(size_t size) {
  return full_may_be_on() ? full_or_other_allocate(size) : front_allocate_beyond(size);
}

HAK_NOINLINE void full_or_far(void *pointer, const struct inbox *inbox) {
  if (HAK_LIKELY(!full_may_be_on())) guard_free_far(pointer, inbox);
  else if (full_find_mode()) full_free(pointer);
  else front_free(pointer);
}

/* What tells of the end here is not for the program. */
static void clear_end(const struct block *block, char *pointer, size_t size) {
  if (!is_small(block) && ends_at_guard(room_of(block), size)) return;
  size_t canary = is_small(block) ? room_of(block) - CANARY_BYTES : size;
  memset(pointer + size, 0, filled_of(canary - size));
  memset(pointer + canary, 0, CANARY_BYTES);
}

void *full_reallocate(void *pointer, const struct block *block, size_t size) {
  if (block->tier == BLOCK_EMPTY) {
    void *moved = full_allocate(BLOCK_ALIGNMENT, size, false);
    if (moved != NULL) front_free(pointer);
    return moved;
  }
  size_t new_room = full_room(size);
  if (new_room == 0) return front_refuse();
  size_t old = full_size("realloc", block, pointer);
  clear_end(block, pointer, old);
  void *moved = front_reallocate(pointer, block, new_room);
  full_set_end(moved != NULL ? moved : pointer, moved != NULL ? size : old);
  return moved;
}

#endif

typedef int full_translation_unit_is_not_empty;
