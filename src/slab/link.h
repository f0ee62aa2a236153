/* link.h - what a free block holds in its first word: the next block of its list, NULL at the end.
 *
 * In the hardened variant who can write to freed memory can neither choose where a link leads nor change one unseen. It is mixed with its
 * place and secret numbers of the process; a code made of both and another secret stands in the block's second word, and is looked at
 * before the link is followed. (Mixing links with their place is safe-linking's idea, of glibc 2.32. The fold of a 128-bit product is
 * wyhash's.) The rest of a free block is zeros, in blocks up to HAKMEM_GUARD_ZERO bytes: whether they still are is looked at when it is
 * handed out.
 *
 * Beside that the variant has a state of each block of a slab: of which class it is, and whether it is free. It is a byte out of reach of
 * overflows (superslab->states), found by the block's number in its slab. A block is handed out only if it is free: so none is handed
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
/** The same for who jumps there, which needs no frame. */
void *link_refuse(const void *block);

#if HAK_HARDENED

struct link_secret {
  uint64_t add, multiply, code; /* the last two: odd */
};
extern struct link_secret link_secret HAK_HIDDEN;
enum { LINK_CLASSES = 77 };
/* What the fast paths' checks need to know of a class. As long as a bin, so that a bin's place is one here as well (heap/cache.h). */
struct link_class {
  uint64_t reciprocal; /* 2^32 / the size of its blocks, rounded up, or 64: LINK_STEP_FAR */
  uint8_t free, live;  /* states */
  uint8_t second, step, steps2; /* link_steps_of */
  int8_t steps3; /* as well; 0: there is nothing to clear, below 0: more than LINK_BY_CALL bytes */
  uint8_t unused[2];
};
extern struct link_class link_classes[LINK_CLASSES] HAK_HIDDEN;
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

/* What a state says: no block is here, or one of this class, free or live. */
enum { STATE_NONE = 0, STATE_FREE = 1, STATE_LIVE = 0x80 };

/* Slabs of one slice have a state for each block. Those of several have one for each of so many bytes, of which their blocks' sizes are
 * multiples: a block's place in its slice is enough then, whichever slice of the slab that is. */
#define LINK_STEP_FAR STATES_SPARSE_FROM

/** Finds the state of the block of a class that starts at an address in a SuperSlab. Where the slab is of another class it is a byte of that
 * slab's, or of neighbours' longer blocks, which says so. False: no block of the class starts there.
 *
 * A block's offset is the address' lower half. Its product with the reciprocal has the block's number above and, below, less than the reciprocal if and
 * only if a block starts there (Lemire, Kaser and Kurz 2019; unit.block_states tries all of them). */
HAK_INLINE bool link_state_at(const struct link_class *of, const void *block,
                              _Atomic uint8_t **state) {
  uint64_t product = (uint64_t)((uintptr_t)block % SLICE_BYTES) * of->reciprocal;
  *state = map_states(block) + (product >> 32);
  return (uint32_t)product < (uint32_t)of->reciprocal;
}

/** relaxed: a thread that has a live block got it from who allocated it, and one that has a free
 * block got it with a list. For any other address any answer will do that is not of a live block. */
HAK_INLINE unsigned link_state(const void *block, unsigned size_class) {
  _Atomic uint8_t *state;
  bool starts = link_state_at(&link_classes[size_class], block, &state);
  return starts ? atomic_load_explicit(state, memory_order_relaxed) : STATE_NONE;
}

/** relaxed: see link_state */
HAK_INLINE void link_set_state(const void *block, unsigned size_class, unsigned state) {
  _Atomic uint8_t *at;
  if (HAK_LIKELY(link_state_at(&link_classes[size_class], block, &at)))
    atomic_store_explicit(at, (uint8_t)state, memory_order_relaxed);
}

/** The states of `count` blocks of a slab. */
void link_set_states(const struct slab *slab, unsigned first, unsigned count, unsigned state);

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
  return option_guard() == GUARD_OFF || link_state(block, size_class) == STATE_FREE + size_class;
}

/** Are free blocks of this class zeros behind their first two words? */
HAK_INLINE bool link_zeroes(unsigned size_class) {
  return link_zeros_end[size_class] > LINK_WORDS_BYTES || size_class == 0;
}

typedef uint64_t link_pair __attribute__((vector_size(16), may_alias));

/** Ends a list at a block, in one store. The child of a fork goes on with the bins of threads that it has not, and with two stores it could find one of
 * the words without the other. */
HAK_INLINE void link_end(void *block) {
  uint64_t mask = link_mask(block);
  *(link_pair *)block = (link_pair){mask, link_code(mask, mask)};
}

/** Clears memory under the lock of a heap. gcc would make a call of memset out of the loop, and whoever stands in its place may allocate
 * (docs/decisions/0039). `bytes`: a multiple of 16. */
HAK_INLINE void link_zero(void *start, size_t bytes) {
  for (link_pair *at = start, *end = at + bytes / sizeof *at; at < end; at++) {
    *at = (link_pair){0, 0};
    __asm__ volatile("");
  }
}

/* Longer ones are cleared and looked at by a function. */
enum { LINK_BY_CALL = 128 };

/* Shorter ones all take the same steps: a loop or a branch for each length would be mispredicted where sizes vary, which costs more than all steps.
 * Two times as many pairs, 1, 2 or 4, as fit into the block one time at least cover it: those at its beginning and those at its end, which is from
 * `second` on. Where they are fewer than 4, steps fall on each other. */
struct link_steps {
  char *first, *second;
  size_t step, steps2, steps3;
};

HAK_INLINE struct link_steps link_steps_of(const struct link_class *of, void *block) {
  return (struct link_steps){block, (char *)block + of->second, of->step, of->steps2,
                             (size_t)of->steps3};
}

HAK_INLINE link_pair *link_pair_at(char *from, size_t offset) {
  return (link_pair *)(void *)(from + offset);
}

/** Free blocks of at most so many bytes are zeros, a multiple of 16; 0: none are. */
extern uint32_t link_zeros_most HAK_HIDDEN;

/** Ends the program unless they are zeros: the bytes of a block from its third word on. Gives the block. */
void *link_look_far(void *block, size_t end);

/* Is a block zeros, whose class has steps? */
HAK_INLINE bool link_is_zero_near(const struct link_class *of, void *block) {
  struct link_steps at = link_steps_of(of, block);
  link_pair any = *link_pair_at(at.first, at.step) | *link_pair_at(at.first, at.steps2) |
                  *link_pair_at(at.first, at.steps3) | *link_pair_at(at.second, 0) |
                  *link_pair_at(at.second, at.step) | *link_pair_at(at.second, at.steps2) |
                  *link_pair_at(at.second, at.steps3);
  return (any[0] | any[1]) == 0;
}

/** The class of a bin, by the bin's place. */
HAK_INLINE const struct link_class *link_class_at(size_t place) {
  return (const struct link_class *)(const void *)((const char *)link_classes + place);
}

HAK_INLINE size_t link_zeros_end_at(size_t place) {
  return link_zeros_end[place / sizeof(struct link_class)];
}

/** A block has left its list: ends the program unless it is free, and as it was when it became so. Gives the block. `place`: of the class' bin. */
HAK_INLINE void *link_hand_out(void *block, size_t place) {
  const struct link_class *of = link_class_at(place);
  _Atomic uint8_t *state;
  if (HAK_UNLIKELY(!link_state_at(of, block, &state)) ||
      HAK_UNLIKELY(atomic_load_explicit(state, memory_order_relaxed) != of->free))
    return link_refuse(block);
  atomic_store_explicit(state, of->live, memory_order_relaxed);
  *link_pair_at(block, 0) = (link_pair){0, 0};
  if (of->steps3 == 0) return block;
  if (HAK_UNLIKELY(of->steps3 < 0)) return link_look_far(block, link_zeros_end_at(place));
  return HAK_LIKELY(link_is_zero_near(of, block)) ? block : link_refuse(block);
}

/** Clears a block that becomes a free one, of a class for the fast paths; its link is still to be set. */
HAK_INLINE void link_clear_near(const struct link_class *of, void *block) {
  if (of->steps3 == 0) return;
  struct link_steps at = link_steps_of(of, block);
  const link_pair zero = {0, 0};
  *link_pair_at(at.first, at.step) = *link_pair_at(at.first, at.steps2) = zero;
  *link_pair_at(at.first, at.steps3) = *link_pair_at(at.second, 0) = zero;
  *link_pair_at(at.second, at.step) = *link_pair_at(at.second, at.steps2) = zero;
  *link_pair_at(at.second, at.steps3) = zero;
}

/** The same of any class. */
HAK_INLINE void link_clear(void *block, unsigned size_class) {
  const struct link_class *of = &link_classes[size_class];
  if (of->steps3 >= 0) link_clear_near(of, block);
  else memset(block, 0, link_zeros_end[size_class]);
}

#else

HAK_INLINE void link_start(void) {}
HAK_INLINE void link_set(void *block, void *next) { *(void **)block = next; }
HAK_INLINE void link_end(void *block) { *(void **)block = NULL; }
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
HAK_INLINE void *link_hand_out(void *block, size_t place) {
  (void)place;
  return block;
}
HAK_INLINE void link_clear(void *block, unsigned size_class) {
  (void)block;
  (void)size_class;
}
HAK_INLINE void link_set_state(const void *block, unsigned size_class, unsigned state) {
  (void)block, (void)size_class, (void)state;
}
HAK_INLINE void link_set_states(const struct slab *slab, unsigned first, unsigned count,
                                unsigned state) {
  (void)slab, (void)first, (void)count, (void)state;
}
HAK_INLINE uint32_t link_draw(uint32_t limit) {
  (void)limit;
  return 0;
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
