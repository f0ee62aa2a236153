/* empty.h - blocks of no bytes: malloc(0) in the hardened variant, in light and full.
 *
 * Each is an address of its own, 16 bytes from the next one, in pages that nothing may touch: a read or a write ends in SIGSEGV. Which
 * of them live is known elsewhere. There are EMPTY_BLOCKS of them; a program that has more of them alive gets ordinary blocks.
 *
 * Thread safety: any thread, without a lock. Their addresses have one megabyte together, mapped with the first of them.
 */
#ifndef HAK_EMPTY_H
#define HAK_EMPTY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "slab/size_class.h"

enum { EMPTY_BLOCKS = 65536 };

#if HAK_HARDENED

/* Where they are. 0: none was asked for so far. Written once. */
#define EMPTY_REFUSED 1u /* the system refused the pages */
extern _Atomic uintptr_t empty_pages HAK_HIDDEN;

/** Is it one of them, or an address between two? */
HAK_INLINE bool empty_has(const void *pointer) {
  /* relaxed: the holder of such a block got it from its allocator, after the pages were there */
  uintptr_t base = atomic_load_explicit(&empty_pages, memory_order_relaxed);
  return (uintptr_t)pointer - base < (size_t)EMPTY_BLOCKS * BLOCK_ALIGNMENT && base > EMPTY_REFUSED;
}

/** A block of no bytes; NULL: there is none left, or no room for the pages. */
void *empty_take(void);
/** Ends one. False: it did not live. empty_has it. */
bool empty_put(const void *block);
/** Does one that lives start there? empty_has it. */
bool empty_lives(const void *pointer);

#else

HAK_INLINE bool empty_has(const void *pointer) { return (void)pointer, false; }
HAK_INLINE void *empty_take(void) { return NULL; }
HAK_INLINE bool empty_put(const void *block) { return (void)block, false; }
HAK_INLINE bool empty_lives(const void *pointer) { return (void)pointer, false; }

#endif

#endif
