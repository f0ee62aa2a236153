/* real.h - what the checked functions stand on: libc's memmove and memset, and which calls are the program's.
 *
 * All others are made of these two and of strlen, so that nothing else has to be found. Until the library's constructor has run (other
 * libraries' may run before it) copies are made by plain loops and not checked.
 */
#ifndef HAK_COPIES_REAL_H
#define HAK_COPIES_REAL_H

#include "os/os.h"

typedef void *copy_function(void *to, const void *from, size_t bytes);
typedef void *set_function(void *to, int byte, size_t bytes);

/* Written by the constructor. relaxed: each value is a right one. */
extern _Atomic(copy_function *) real_memcpy HAK_HIDDEN, real_memmove HAK_HIDDEN;
extern _Atomic(set_function *) real_memset HAK_HIDDEN;

/* Calls from these addresses are not checked. The allocator's own: it writes to free blocks, and behind what programs asked for. All of
 * them: checks are off. */
struct unchecked {
  _Atomic uintptr_t start, bytes;
};
extern struct unchecked unchecked HAK_HIDDEN;

HAK_INLINE bool is_checked(const void *caller) {
  uintptr_t start = atomic_load_explicit(&unchecked.start, memory_order_relaxed);
  return (uintptr_t)caller - start >= atomic_load_explicit(&unchecked.bytes, memory_order_relaxed);
}

/** No call is checked any more. */
void checks_end(void);

HAK_INLINE void *copy(void *to, const void *from, size_t bytes) {
  return atomic_load_explicit(&real_memcpy, memory_order_relaxed)(to, from, bytes);
}
HAK_INLINE void *move(void *to, const void *from, size_t bytes) {
  return atomic_load_explicit(&real_memmove, memory_order_relaxed)(to, from, bytes);
}
HAK_INLINE void *set(void *to, int byte, size_t bytes) {
  return atomic_load_explicit(&real_memset, memory_order_relaxed)(to, byte, bytes);
}

#endif
