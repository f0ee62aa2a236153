/* guard.h - checks on every allocation and free in the hardened variant; nothing in the others.
 *
 * free() asks what is known of the address, outside user memory: is it the start of a live block? malloc() refuses a block that is
 * not free, or not as it was when it was freed (slab/link.h).
 */
#ifndef HAK_GUARD_H
#define HAK_GUARD_H

#include <stdbool.h>
#include <stddef.h>

#include "slab/slab.h"
#include "superslab/map.h"

#if HAK_HARDENED

/** Ends the program: no live block starts there. */
_Noreturn void guard_refuse(const void *block);
/** Does what malloc has just handed out read as zeros? */
bool guard_is_zero(const void *block);
/** Ends the program where `pointer` does not lie at a multiple of `alignment`, or that is no power of two. */
void guard_check_alignment(const char *function, const void *pointer, size_t alignment);
/** A block has kept its size, since the system refused the memory to shrink it: from now on no block counts as too large. */
void guard_kept_size(void);
/** Ends the program where `pointer` is a block of ours that was not allocated with about this size and alignment (0: any). */
void guard_check_size(const char *function, const void *pointer, size_t size, size_t alignment);

/** Frees a block that guard_freed_near has left alone (front.c). */
void guard_free_far(void *block, const struct inbox *inbox);

HAK_INLINE bool guard_is_on(void) { return option_guard() != GUARD_OFF; }

/** Is the block of a slab that starts at `pointer`, a boundary, handed out? */
HAK_INLINE bool guard_is_live(const void *pointer) {
  return !guard_is_on() || link_state(pointer) >= STATE_LIVE;
}

/** Takes a free block of a slab out of the hands of its list: ends the program unless it is as it was freed. */
HAK_INLINE void guard_allocated(void *block, unsigned size_class) {
  if (guard_is_on()) (void)link_hand_out(block, size_class);
}

/* Ends the program unless `state` is that of a live block at `block`, and tells its class. */
HAK_INLINE unsigned guard_live_class(_Atomic uint8_t *state, const void *block) {
  unsigned value = atomic_load_explicit(state, memory_order_relaxed);
  if (HAK_UNLIKELY(value < STATE_LIVE || (uintptr_t)block % STATE_BYTES != 0)) guard_refuse(block);
  return value - STATE_LIVE;
}

HAK_INLINE void guard_set_free(_Atomic uint8_t *state, unsigned size_class) {
  atomic_store_explicit(state, (uint8_t)(size_class + STATE_FREE), memory_order_relaxed);
}

/** Ends the program unless `block`, whose slab the map names `inbox` for, is the start of a live block. NULL: it lies in no thread's slab, and
 * is checked on the slow path in every variant. It becomes a free one, but for its link. */
HAK_INLINE void guard_freed(void *block, const struct inbox *inbox) {
  if (!guard_is_on() || inbox == NULL) return;
  _Atomic uint8_t *state = map_state(block);
  unsigned size_class = guard_live_class(state, block);
  link_clear(block, size_class);
  guard_set_free(state, size_class);
}

/** The same on the fast path, where there are checks. False: nothing was done, since it is for guard_freed or has no bin. */
HAK_INLINE bool guard_freed_near(void *block, const struct inbox *inbox) {
  if (HAK_UNLIKELY(inbox == NULL)) return false;
  _Atomic uint8_t *state = map_state(block);
  unsigned size_class = guard_live_class(state, block);
  size_t end = link_zeros_end[size_class];
  if (HAK_UNLIKELY(end > LINK_BY_CALL)) return false;
  link_clear_near(block, end);
  guard_set_free(state, size_class);
  return true;
}

HAK_INLINE void guard_freed_aligned(const void *pointer, size_t alignment) {
  if (option_guard() != GUARD_OFF) guard_check_alignment("free", pointer, alignment);
}

/* In light: is it for sure that the block of a slab at `pointer` has about this size? A block has at most twice the bytes that were asked
 * for, and the least of them has 16. */
HAK_INLINE bool guard_fits(const void *pointer, size_t size, size_t alignment) {
  if (link_mode != LINK_MODE_LIGHT || !map_has_entry(pointer) || map_inbox(pointer) == NULL)
    return false;
  unsigned state = link_state(pointer);
  if (state < STATE_LIVE || ((uintptr_t)pointer & (alignment - 1)) != 0) return false;
  size_t usable = class_size(state - STATE_LIVE), least = BLOCK_ALIGNMENT;
  return size <= usable && usable <= 2 * (size > least ? size : least);
}

HAK_INLINE void guard_freed_sized(void *pointer, size_t size, size_t alignment) {
  if (guard_fits(pointer, size, alignment == 0 ? 1 : alignment)) return;
  if (option_guard() != GUARD_OFF) guard_check_size("free", pointer, size, alignment);
}

#else

HAK_INLINE bool guard_is_on(void) { return false; }
/* Not called: a build without optimisation wants it all the same. */
HAK_INLINE void guard_free_far(void *block, const struct inbox *inbox) {
  (void)block;
  (void)inbox;
}
HAK_INLINE bool guard_freed_near(void *block, const struct inbox *inbox) {
  (void)block;
  (void)inbox;
  return true;
}
HAK_INLINE void guard_allocated(void *block, unsigned size_class) {
  (void)block;
  (void)size_class;
}
HAK_INLINE void guard_freed(void *block, const struct inbox *inbox) {
  (void)block;
  (void)inbox;
}
HAK_INLINE void guard_freed_aligned(const void *pointer, size_t alignment) {
  (void)pointer;
  (void)alignment;
}
HAK_INLINE void guard_freed_sized(void *pointer, size_t size, size_t alignment) {
  (void)pointer;
  (void)size;
  (void)alignment;
}
HAK_INLINE void guard_kept_size(void) {}
HAK_INLINE bool guard_is_live(const void *pointer) {
  (void)pointer;
  return true; /* as far as anybody knows */
}
HAK_INLINE bool guard_is_zero(const void *block) {
  (void)block;
  return false;
}

#endif

#endif
