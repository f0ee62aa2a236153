/* full.c - see full.h. */
#include "front/full.h"

#if HAK_HARDENED

#include <errno.h>
#include <string.h>

#include "heap/quarantine.h"
#include "release/background.h"
#include "release/marks.h"

/* The canary is one word. Its lowest bits say how many bytes before it are not the program's, of which there are less than 1 MiB. */
enum { CANARY_BYTES = sizeof(uint64_t), UNUSED_BITS = 20 };
#define UNUSED_MASK ((UINT64_C(1) << UNUSED_BITS) - 1)

bool full_find_mode(void) {
  if (link_mode == LINK_MODE_UNKNOWN) heap_start();
  return link_mode == LINK_MODE_FULL;
}

static uint64_t canary_of(const void *block, uint64_t unused) {
  uint64_t mask = link_mask((const char *)block + 1); /* no link's */
  return (link_fold(unused ^ link_secret.code, mask | 1) << UNUSED_BITS | unused) ^ mask;
}

/* Never 0, which strings end with. */
static unsigned char filler_of(const void *block) {
  return (unsigned char)(link_mask((const char *)block + 2) | 1);
}

static bool is_small(const struct block *block) { return block->tier <= BLOCK_GUARDED; }

/* Where it is kept how much was asked for of a Large or Huge block: in words that only free spans and slabs use. */
static void **size_entry(const struct block *block) {
  struct slab *slab = block->tier == BLOCK_LARGE ? block->slab : &block->superslab->slabs[0];
  return &slab->free_list;
}

static void set_end(void *pointer, size_t size) {
  struct block block = block_find(pointer);
  size_t room = block_usable(&block, pointer);
  char *end = (char *)pointer + size;
  uint64_t unused = 0;
  if (is_small(&block)) {
    unused = room - CANARY_BYTES - size;
    memset(end, filler_of(pointer), unused);
    end += unused;
  } else {
    *size_entry(&block) = (void *)size;
  }
  uint64_t canary = canary_of(pointer, unused);
  memcpy(end, &canary, sizeof canary);
}

/* True: nothing was written behind the block. */
static bool end_is_whole(const struct block *block, const void *pointer, size_t *size) {
  size_t room = block_usable(block, pointer);
  uint64_t canary, unused = 0;
  if (is_small(block)) {
    const char *end = (const char *)pointer + room - CANARY_BYTES;
    memcpy(&canary, end, sizeof canary);
    unused = (canary ^ link_mask((const char *)pointer + 1)) & UNUSED_MASK;
    if (unused > room - CANARY_BYTES) return false;
    *size = room - CANARY_BYTES - unused;
    unsigned char filler = filler_of(pointer);
    for (uint64_t i = 1; i <= unused; i++)
      if ((unsigned char)end[-(ptrdiff_t)i] != filler) return false;
  } else {
    *size = (size_t)*size_entry(block);
    if (*size > room - CANARY_BYTES) return false;
    memcpy(&canary, (const char *)pointer + *size, sizeof canary);
  }
  return canary == canary_of(pointer, unused);
}

static size_t checked_size(const char *function, const struct block *block, const void *pointer) {
  size_t size;
  if (HAK_UNLIKELY(!end_is_whole(block, pointer, &size)))
    report_bad_pointer(function, pointer, REPORT_WRITTEN_BEYOND);
  return size;
}

size_t full_size(const struct block *block, const void *pointer) {
  return checked_size("malloc_usable_size", block, pointer);
}

void *full_allocate(size_t alignment, size_t size, bool zero) {
  if (size > PTRDIFF_MAX - CANARY_BYTES) {
    errno = ENOMEM;
    return NULL;
  }
  size_t room = size + CANARY_BYTES;
  void *block = zero                           ? front_allocate_zeroed(room)
                : alignment <= BLOCK_ALIGNMENT ? front_allocate(room)
                                               : front_allocate_aligned(alignment, room);
  if (block != NULL) set_end(block, size);
  return block;
}

void full_free(void *pointer) {
  if (pointer == NULL) return;
  struct block block = block_look_up(pointer);
  if (HAK_UNLIKELY(block.wrong != NULL)) {
    front_free(pointer); /* says so */
    return;
  }
  (void)checked_size("free", &block, pointer);
  struct heap *heap = heap_of_thread();
  struct bin *bin = map_bin(pointer);
  if (block.tier != BLOCK_SMALL || heap == NULL || bin == NULL) {
    if (block.tier >= BLOCK_LARGE) *size_entry(&block) = NULL;
    front_free(pointer);
    return;
  }
  int saved = errno;
  release_note_caller(__builtin_return_address(0));
  guard_freed(pointer, bin);
  quarantine_put(heap, pointer, block.slab->size_class);
  release_answer(heap);
  errno = saved;
}

void *full_reallocate(void *pointer, const struct block *block, size_t size) {
  if (size > PTRDIFF_MAX - CANARY_BYTES) {
    errno = ENOMEM;
    return NULL;
  }
  size_t old = checked_size("realloc", block, pointer), room = block_usable(block, pointer);
  /* What tells of the end here is not for the program. */
  size_t end = is_small(block) ? room : old + CANARY_BYTES;
  memset((char *)pointer + old, 0, end - old);
  void *moved = front_reallocate(pointer, block, size + CANARY_BYTES);
  set_end(moved != NULL ? moved : pointer, moved != NULL ? size : old);
  return moved;
}

#endif

typedef int full_translation_unit_is_not_empty;
