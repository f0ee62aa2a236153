/* reach.h - reading a stack that may end anywhere. */
#ifndef HAK_REACH_H
#define HAK_REACH_H

#include <stdbool.h>
#include <stdint.h>

/* What can be read: [low, high). */
struct reach {
  uintptr_t low, high;
  unsigned asked; /* pages that the kernel was asked for */
};

/** Of the stack that `address` is on, which has to be readable. */
struct reach reach_of(uintptr_t address);

/** Goes on upwards to a page that can be read, a bounded number of them; false: it cannot. */
bool reach_extend(struct reach *reach, uintptr_t address);

/** The word there; false: it cannot be read, or lies below. Sanitizers: it reads words that are nobody's variable. */
__attribute__((no_sanitize("address", "thread"))) static inline bool
reach_word(struct reach *reach, uintptr_t address, uintptr_t *word) {
  if (address % sizeof(void *) != 0 || address < reach->low) return false;
  if (address >= reach->high && !reach_extend(reach, address)) return false;
  *word = *(const volatile uintptr_t *)address; /* NOLINT(clang-analyzer-core.NullDereference) */
  return true;
}

#endif
