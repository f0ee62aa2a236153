/* guard.h - checks on every allocation and free in the hardened variant; nothing in the others.
 *
 * free() asks what is known of the address, outside user memory: is it the start of a live block? malloc() refuses a block that is
 * not free, or not as it was when it was freed (slab/link.h).
 */
#ifndef HAK_GUARD_H
#define HAK_GUARD_H

#include <stdbool.h>
#include <stddef.h>

#include "heap/heap.h"
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
/** Frees a block that free's fast path has left alone, in any mode: in light most go into the slot of their owner. */
void guard_free_near(void *block, const struct inbox *inbox);

HAK_INLINE bool guard_is_on(void) { return option_guard() != GUARD_OFF; }

/** Is the block of this class that starts at `pointer` in a slab handed out? */
HAK_INLINE bool guard_is_live(const void *pointer, unsigned size_class) {
  return !guard_is_on() || link_state(pointer, size_class) == (STATE_LIVE | size_class);
}

/** Takes a free block of a slab out of the hands of its list: ends the program unless it is as it was freed. */
HAK_INLINE void guard_allocated(void *block, unsigned size_class) {
  if (guard_is_on()) (void)link_hand_out(block, size_class * sizeof(struct link_class));
}

/** The class of the slab that a pointer lies in and the map names `inbox` for: by the thread's own bins, or the slab's descriptor. */
HAK_INLINE unsigned guard_class_of(const void *pointer, const struct inbox *inbox) {
  size_t place = cache_place(thread_cache, inbox);
  return HAK_LIKELY(cache_keeps(place)) ? (unsigned)(place / sizeof(struct inbox))
                                        : map_slab(pointer)->size_class;
}

/** Finds the state of the block of the class that starts at `block`. False: none is there, or none that is live. relaxed: see link_state */
HAK_INLINE bool guard_live(const struct link_class *of, const void *block,
                           _Atomic uint8_t **state) {
  return link_state_at(of, block, state) &&
         HAK_LIKELY(atomic_load_explicit(*state, memory_order_relaxed) == of->live);
}

HAK_INLINE void guard_set_free(_Atomic uint8_t *state, unsigned size_class) {
  atomic_store_explicit(state, (uint8_t)(STATE_FREE + size_class), memory_order_relaxed);
}

/** Ends the program unless `block`, whose slab the map names `inbox` for, is the start of a live block. NULL: it lies in no thread's slab, and
 * is checked on the slow path in every variant. It becomes a free one, but for its link. */
HAK_INLINE void guard_freed(void *block, const struct inbox *inbox) {
  if (!guard_is_on() || inbox == NULL) return;
  unsigned size_class = guard_class_of(block, inbox);
  _Atomic uint8_t *state;
  if (HAK_UNLIKELY(!guard_live(&link_classes[size_class], block, &state))) guard_refuse(block);
  link_clear(block, size_class);
  guard_set_free(state, size_class);
}

/** The same on the fast path, of a block whose class has its bin at `place`. False: nothing was done, and what is out of the ordinary is for
 * guard_free_far. */
HAK_INLINE bool guard_freed_near(void *block, size_t place) {
  const struct link_class *of = link_class_at(place);
  _Atomic uint8_t *state;
  if (HAK_UNLIKELY(!guard_live(of, block, &state)) || HAK_UNLIKELY(of->steps3 < 0)) return false;
  link_clear_near(of, block);
  atomic_store_explicit(state, of->free, memory_order_relaxed); /* see link_state */
  return true;
}

HAK_INLINE void guard_freed_aligned(const void *pointer, size_t alignment) {
  if (option_guard() != GUARD_OFF) guard_check_alignment("free", pointer, alignment);
}

/* In light: is it for sure that a block of a slab at `pointer` has about this size, if one is there, which free() sees? A block has at most twice the bytes that were asked
 * for, and the least of them has 16. */
HAK_INLINE bool guard_fits(const void *pointer, size_t size, size_t alignment) {
  if (link_mode != LINK_MODE_LIGHT || !map_has_entry(pointer) || map_inbox(pointer) == NULL)
    return false;
  if (((uintptr_t)pointer & (alignment - 1)) != 0) return false;
  size_t usable = class_size(guard_class_of(pointer, map_inbox(pointer)));
  size_t least = BLOCK_ALIGNMENT;
  return size <= usable && usable <= 2 * (size > least ? size : least);
}

HAK_INLINE void guard_freed_sized(void *pointer, size_t size, size_t alignment) {
  if (guard_fits(pointer, size, alignment == 0 ? 1 : alignment)) return;
  if (option_guard() != GUARD_OFF) guard_check_size("free", pointer, size, alignment);
}

#else

HAK_INLINE bool guard_is_on(void) { return false; }
/* Not called, as the next one: a build without optimisation wants it all the same. */
HAK_INLINE void guard_free_far(void *block, const struct inbox *inbox) {
  (void)block;
  (void)inbox;
}
HAK_INLINE void guard_free_near(void *block, const struct inbox *inbox) {
  (void)block;
  (void)inbox;
}
HAK_INLINE bool guard_freed_near(void *block, size_t place) {
  (void)block;
  (void)place;
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
HAK_INLINE bool guard_is_live(const void *pointer, unsigned size_class) {
  (void)pointer;
  (void)size_class;
  return true; /* as far as anybody knows */
}
HAK_INLINE bool guard_is_zero(const void *block) {
  (void)block;
  return false;
}

#endif

#endif
