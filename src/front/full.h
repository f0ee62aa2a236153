/* full.h - what HAKMEM_GUARD=full does beyond light: a canary behind each block, at the byte that the program has not asked for, and
 * a quarantine. Every call of the interface comes here instead of the front's own functions then.
 *
 * In a block of a slab the last 8 bytes say how many before them the program did not ask for, and these hold a byte that is the block's
 * own. In Large and Huge blocks a canary of 8 bytes stands behind what was asked for, unless the block ends there and its guard begins,
 * and the descriptor knows how much that was. All depend
 * on the place and on secret numbers of the process. They are looked at when the block is freed or resized and when its
 * size is asked for.
 *
 * Sizes in bytes; failures as in front.h.
 */
#ifndef HAK_FULL_H
#define HAK_FULL_H

#include "front/front.h"

#if HAK_HARDENED

bool full_find_mode(void);

/** Is the mode another one than light, or not known yet? */
HAK_INLINE bool full_may_be_on(void) { return HAK_UNLIKELY(link_mode != LINK_MODE_LIGHT); }
/** Is this HAKMEM_GUARD=full? Reads the options if nobody did. */
HAK_INLINE bool full_is_on(void) { return full_may_be_on() && full_find_mode(); }
/** malloc in any mode. */
void *full_or_other_allocate(size_t size);
/** The slow halves of malloc and free in any mode, see fast.h. */
void *full_or_slow(size_t size);
void *full_or_sample(size_t size);
void *full_or_beyond(size_t size);
void full_or_far(void *pointer, const struct inbox *inbox);

/** What to ask for so that `size` bytes and what tells of their end have room; 0: there is no such size. */
size_t full_room(size_t size);
/** Marks the end of a block of full_room(size) bytes that was just allocated. */
void full_set_end(void *pointer, size_t size);
/** As front_allocate_aligned; `zero`: reads as zeros. */
void *full_allocate(size_t alignment, size_t size, bool zero);
void full_free(void *pointer);
/** The same with a block of which full_reallocate has taken what told of its end. */
void full_retire(void *pointer);
/** As front_reallocate. */
void *full_reallocate(void *pointer, const struct block *block, size_t size);
/** The bytes that the program asked for. `function`: whose name a report has. */
size_t full_size(const char *function, const struct block *block, const void *pointer);
/** The same in constant time, of a block that may be free or damaged: 0 then, unless the damage lies between the program's bytes and
 * the canary. */
size_t full_size_told(const struct block *block, const void *pointer);

#else

/* Never called: a build without optimisation wants them all the same. */
HAK_INLINE bool full_is_on(void) { return false; }
HAK_INLINE bool full_may_be_on(void) { return false; }
HAK_INLINE void *full_or_other_allocate(size_t size) { return front_allocate(size); }
HAK_INLINE void *full_or_slow(size_t size) { return front_allocate_slow(size); }
HAK_INLINE void *full_or_sample(size_t size) { return front_allocate_sample(size); }
HAK_INLINE void *full_or_beyond(size_t size) { return front_allocate_beyond(size); }
HAK_INLINE size_t full_room(size_t size) { return size; }
HAK_INLINE void full_set_end(void *pointer, size_t size) {
  (void)pointer;
  (void)size;
}
HAK_INLINE void *full_allocate(size_t alignment, size_t size, bool zero) {
  return zero ? front_allocate_zeroed(size) : front_allocate_aligned(alignment, size);
}
HAK_INLINE void full_free(void *pointer) { front_free(pointer); }
HAK_INLINE void full_retire(void *pointer) { front_free(pointer); }
HAK_INLINE void *full_reallocate(void *pointer, const struct block *block, size_t size) {
  return front_reallocate(pointer, block, size);
}
HAK_INLINE size_t full_size(const char *function, const struct block *block, const void *pointer) {
  (void)function;
  return block_usable(block, pointer);
}
HAK_INLINE size_t full_size_told(const struct block *block, const void *pointer) {
  (void)pointer;
  return block->usable;
}

#endif

#endif
