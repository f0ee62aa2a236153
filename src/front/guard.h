/* guard.h - checks on every allocation and free in the hardened variant; nothing in the others.
 *
 * A bit for each 16 bytes of a SuperSlab, outside user memory, says where live blocks start. free()
 * clears it with one atomic operation: of two frees of one block, from whatever threads, exactly one
 * finds it set.
 */
#ifndef HAK_GUARD_H
#define HAK_GUARD_H

#include <stdbool.h>

#include "os/variant.h"

#if HAK_HARDENED

/** Marks a block of a slab as handed out. */
void guard_allocated(void *block);
/** Ends the program unless `block` is NULL, not ours to judge here (Large, Huge, foreign: checked on the
 * slow path in every variant) or the start of a live block, which it marks as free. */
void guard_freed(void *block);
/** Is the block of a slab that starts at `pointer` handed out? */
bool guard_is_live(const void *pointer);

#else

static inline void guard_allocated(void *block) { (void)block; }
static inline void guard_freed(void *block) { (void)block; }

#endif

#endif
