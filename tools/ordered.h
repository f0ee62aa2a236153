/* ordered.h - looking up an address in a list that is ordered by one. */
#ifndef HAKMEM_ORDERED_H
#define HAKMEM_ORDERED_H

#include <stddef.h>
#include <stdint.h>

/** The number of the first of `count` items, `size` bytes each, whose address at `field` is above `address`; `count`: none is. Items are in
 * the order of that address. */
static inline size_t first_above(const void *items, size_t count, size_t size, size_t field,
                                 uint64_t address) {
  size_t low = 0, high = count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    const char *item = (const char *)items + middle * size;
    if (*(const uint64_t *)(const void *)(item + field) <= address) low = middle + 1;
    else high = middle;
  }
  return low;
}

#endif
