/* link.h - what a free block holds in its first word: the next block of its list, NULL at the end.
 *
 * In the hardened variant a link can neither be read nor made by who can only write to freed memory: it is stored mixed with its
 * place and two secret numbers of the process, and each that is followed has to lead to a free block of the same class. (The
 * idea of mixing with the place is safe-linking's, of glibc 2.32; with a secret beside it one known link tells nothing of another.)
 *
 * Thread safety: as the list's.
 */
#ifndef HAK_LINK_H
#define HAK_LINK_H

#include <stdint.h>

#include "os/os.h"

#if HAK_HARDENED

struct link_secret {
  uint64_t add, multiply; /* multiply: odd */
};
extern struct link_secret link_secret HAK_HIDDEN;

/** Draws the secret numbers. Before the first block, by one thread. */
void link_start(void);
/** Ends the program unless `next`, which the link of a free block says, is NULL or a free block of its class. */
void link_check(const void *block, const void *next);

/* The upper half of a product depends on all of its factors' bits. */
HAK_INLINE uintptr_t link_mask(const void *block) {
  uint64_t mixed = ((uintptr_t)block + link_secret.add) * link_secret.multiply;
  return mixed ^ mixed >> 32;
}

#else

HAK_INLINE void link_start(void) {}
HAK_INLINE void link_check(const void *block, const void *next) {
  (void)block;
  (void)next;
}
HAK_INLINE uintptr_t link_mask(const void *block) {
  (void)block;
  return 0;
}

#endif

HAK_INLINE void link_set(void *block, void *next) {
  *(uintptr_t *)block = (uintptr_t)next ^ link_mask(block);
}

HAK_INLINE void *link_next(const void *block) {
  void *next = (void *)(*(const uintptr_t *)block ^ link_mask(block));
  link_check(block, next);
  return next;
}

/** The last block of a list that has one. */
HAK_INLINE void *link_last(void *list) {
  for (void *next; (next = link_next(list)) != NULL;) list = next;
  return list;
}

#endif
