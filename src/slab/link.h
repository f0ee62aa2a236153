/* link.h - what a free block holds in its first word: the next block of its list, NULL at the end.
 *
 * In the hardened variant who can write to freed memory can neither choose where a link leads nor change one unseen. It is mixed with its
 * place and secret numbers of the process; a code made of both and another secret stands in the block's second word, and is looked at
 * before the link is followed. (Mixing links with their place is safe-linking's idea, of glibc 2.32. The fold of a 128-bit product is
 * wyhash's.) The rest of a free block is zeros, in blocks up to HAKMEM_GUARD_ZERO bytes: whether they still are is looked at when it is
 * handed out.
 *
 * Beside that the variant knows of each address in a slab whether a block starts there, of which class, and whether it is free: a byte
 * for 16 bytes, out of reach of overflows (superslab->states). A block is handed out only if it is free: so none is handed
 * out twice, by whatever mistake or attack it is in two lists.
 *
 * Thread safety: as the list's. States are bytes so that no thread has to write what another one's block has.
 */
#ifndef HAK_LINK_H
#define HAK_LINK_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "policy/options.h"
#include "superslab/map.h"

/** Ends the program: what a free block holds was changed. */
_Noreturn void link_report(const void *block);

#if HAK_HARDENED

struct link_secret {
  uint64_t add, multiply, code; /* the last two: odd */
};
extern struct link_secret link_secret HAK_HIDDEN;
enum { LINK_CLASSES = 77 };
/* Of each class, where the zeros of a free block end: behind its first two words, or its end. */
extern uint32_t link_zeros_end[LINK_CLASSES] HAK_HIDDEN;

/* Which mode it is, once the options are read. */
enum { LINK_MODE_UNKNOWN, LINK_MODE_OFF, LINK_MODE_LIGHT, LINK_MODE_FULL };
extern uint8_t link_mode HAK_HIDDEN;

enum { LINK_WORDS_BYTES = 2 * sizeof(uint64_t) };

/** Draws the secret numbers, when options are read and before the first block, by one thread. */
void link_start(void);
/** A number below `limit` that nobody can guess; not for more than 65,536. */
uint32_t link_draw(uint32_t limit);

/* What a state says: no block starts here, or one of this class, free or live. */
enum { STATE_NONE = 0, STATE_FREE = 1, STATE_LIVE = 0x80 };

/** Of an address in a slab. relaxed: a thread that has a live block got it from who allocated it, and one that has a free
 * block got it with a list. For any other address any answer will do that is not of a live block. */
HAK_INLINE uint8_t link_state(const void *block) {
  return atomic_load_explicit(map_state(block), memory_order_relaxed);
}

HAK_INLINE void link_set_state(const void *block, unsigned state) {
  atomic_store_explicit(map_state(block), (uint8_t)state, memory_order_relaxed);
}

/** The states of `count` blocks from `first` on. */
void link_set_states(const char *first, unsigned count, uint32_t size, unsigned state);

/* Both halves of a product of 128 bits: who knows some of them does not know the factors. */
HAK_INLINE uint64_t link_fold(uint64_t a, uint64_t b) {
  __uint128_t product = (__uint128_t)a * (__uint128_t)b;
  return (uint64_t)product ^ (uint64_t)(product >> 64);
}

HAK_INLINE uint64_t link_mask(const void *block) {
  return link_fold((uintptr_t)block + link_secret.add, link_secret.multiply);
}

/* Who has read one of a block could make others for it: they lead to free blocks of its class, or nowhere (link_hand_out). */
HAK_INLINE uint64_t link_code(uint64_t link, uint64_t mask) {
  return mask * link_secret.code + link;
}

HAK_INLINE void link_set(void *block, void *next) {
  uint64_t *words = block, mask = link_mask(block);
  words[0] = (uintptr_t)next ^ mask;
  words[1] = link_code(words[0], mask);
}

HAK_INLINE void *link_next(const void *block) {
  const uint64_t *words = block;
  uint64_t mask = link_mask(block), link = words[0];
  if (HAK_UNLIKELY(words[1] != link_code(link, mask)) && option_guard() != GUARD_OFF)
    link_report(block);
  return (void *)(uintptr_t)(link ^ mask);
}

/** The same of a block that may be none: false where the words are no link. */
HAK_INLINE bool link_try(const void *block, void **next) {
  const uint64_t *words = block;
  uint64_t mask = link_mask(block);
  *next = (void *)(uintptr_t)(words[0] ^ mask);
  return words[1] == link_code(words[0], mask);
}

/** After the second word was used for something else. */
HAK_INLINE void link_restore(void *block) {
  uint64_t *words = block;
  words[1] = link_code(words[0], link_mask(block));
}

/** Is there a free block of the class, as far as is known? */
HAK_INLINE bool link_is_free(const void *block, unsigned size_class) {
  return option_guard() == GUARD_OFF || link_state(block) == STATE_FREE + size_class;
}

/** Are free blocks of this class zeros behind their first two words? */
HAK_INLINE bool link_zeroes(unsigned size_class) {
  return link_zeros_end[size_class] > LINK_WORDS_BYTES || size_class == 0;
}

typedef uint64_t link_pair __attribute__((vector_size(16), may_alias));

/** Clears memory under the lock of a heap. gcc would make a call of memset out of the loop, and whoever stands in its place may allocate
 * (docs/decisions/0039). `bytes`: a multiple of 16. */
HAK_INLINE void link_zero(void *start, size_t bytes) {
  for (link_pair *at = start, *end = at + bytes / sizeof *at; at < end; at++) {
    *at = (link_pair){0, 0};
    __asm__ volatile("");
  }
}

/* Longer ones are cleared and looked at by a function. Shorter ones all take the same steps, of which the last ones repeat the block's end:
 * a loop that ended there would be mispredicted where sizes vary, which costs more than all steps. */
enum { LINK_BY_CALL = 128, LINK_STEPS = LINK_BY_CALL / (int)sizeof(link_pair) };

/* A pair of the block for a step above 0. */
HAK_INLINE link_pair *link_step(void *block, size_t end, size_t step) {
  size_t at = step * sizeof(link_pair), last = end - sizeof(link_pair);
  return (link_pair *)(void *)((char *)block + (at < last ? at : last));
}

/** Free blocks of at most so many bytes are zeros, a multiple of 16; 0: none are. */
extern uint32_t link_zeros_most HAK_HIDDEN;

/** Ends the program unless they are zeros: the bytes of a block from its third word on. Gives the block. */
void *link_look_far(void *block, size_t end);

/** A block has left its list: ends the program unless it is free, and as it was when it became so. Gives the block. */
HAK_INLINE void *link_hand_out(void *block, unsigned size_class) {
  _Atomic uint8_t *state = map_state(block);
  if (HAK_UNLIKELY(atomic_load_explicit(state, memory_order_relaxed) != STATE_FREE + size_class))
    link_report(block);
  atomic_store_explicit(state, (uint8_t)(STATE_LIVE | size_class), memory_order_relaxed);
  size_t end = link_zeros_end[size_class];
  link_pair *pairs = block, any = {0, 0};
  pairs[0] = any;
  if (HAK_UNLIKELY(end > LINK_BY_CALL)) return link_look_far(block, end);
  if (end <= LINK_WORDS_BYTES) return block;
#pragma GCC unroll 8
  for (size_t i = 1; i < LINK_STEPS; i++) any |= *link_step(block, end, i);
  if (HAK_UNLIKELY((any[0] | any[1]) != 0)) link_report(block);
  return block;
}

/** Clears a block that becomes a free one, whose zeros end at `end` bytes, at most LINK_BY_CALL; its link is still to be set. */
HAK_INLINE void link_clear_near(void *block, size_t end) {
  if (end <= LINK_WORDS_BYTES) return;
#pragma GCC unroll 8
  for (size_t i = 1; i < LINK_STEPS; i++) *link_step(block, end, i) = (link_pair){0, 0};
}

/** The same for any. */
HAK_INLINE void link_clear(void *block, unsigned size_class) {
  size_t end = link_zeros_end[size_class];
  if (end <= LINK_BY_CALL) link_clear_near(block, end);
  else memset((char *)block + LINK_WORDS_BYTES, 0, end - LINK_WORDS_BYTES);
}

#else

HAK_INLINE void link_start(void) {}
HAK_INLINE void link_set(void *block, void *next) { *(void **)block = next; }
HAK_INLINE void *link_next(const void *block) { return *(void *const *)block; }
HAK_INLINE bool link_try(const void *block, void **next) {
  *next = link_next(block);
  return true;
}
HAK_INLINE void link_restore(void *block) { (void)block; }
HAK_INLINE bool link_is_free(const void *block, unsigned size_class) {
  (void)block;
  (void)size_class;
  return true;
}
HAK_INLINE bool link_zeroes(unsigned size_class) {
  (void)size_class;
  return false;
}
HAK_INLINE void link_zero(void *start, size_t bytes) { (void)start, (void)bytes; }
HAK_INLINE void *link_hand_out(void *block, unsigned size_class) {
  (void)size_class;
  return block;
}
HAK_INLINE void link_clear(void *block, unsigned size_class) {
  (void)block;
  (void)size_class;
}
HAK_INLINE void link_set_state(const void *block, unsigned state) {
  (void)block;
  (void)state;
}
HAK_INLINE void link_set_states(const char *first, unsigned count, uint32_t size, unsigned state) {
  (void)first;
  (void)count;
  (void)size;
  (void)state;
}
enum { STATE_NONE, STATE_FREE, STATE_LIVE };

#endif

/** As link_next, on slow paths: ends the program where a program that wrote to freed memory made the link lead out of ours. */
HAK_INLINE void *link_follow(const void *block) {
  void *next = link_next(block);
  if (HAK_UNLIKELY(next != NULL && (map_superslab(next) == NULL || (uintptr_t)next % 16 != 0)))
    link_report(block);
  return next;
}

/** The same where the list goes on: ends the program as well where it was cut off. */
HAK_INLINE void *link_follow_on(const void *block) {
  void *next = link_follow(block);
  if (HAK_UNLIKELY(next == NULL)) link_report(block);
  return next;
}

/** The last block of a list that has `count`, at least one. Ends the program where it has more: one that was tied to a ring has no end. */
HAK_INLINE void *link_last(void *list, unsigned count) {
  while (--count > 0) list = link_follow_on(list);
  if (HAK_UNLIKELY(link_next(list) != NULL)) link_report(list);
  return list;
}

#endif
