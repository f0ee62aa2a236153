/* copied.h - a function of libc copies, with a length that came from elsewhere: from or to a block's middle, one byte more than there is. The
 * twin's copy ends with the block. */
#ifndef COPIED_H
#define COPIED_H

#include "guarantee.h"

struct copied {
  unsigned char *block, *middle; /* of the block that the length does not fit */
  unsigned char *other;          /* as much as is copied, and more; all 'A' */
  size_t bytes;
};

/* Of a block of `size` bytes. */
static inline struct copied take_copied(size_t size) {
  struct copied copied = {take(size), NULL, take(size + 64), size - size / 2};
  memset(copied.other, 'A', size + 64);
  copied.middle = opaque(copied.block + size / 2);
  if (!twin) copied.bytes++;
  return copied;
}

/* What was copied is there: a check must not eat it. */
static inline void end_of_copy(const unsigned char *copy, size_t bytes) {
  if (twin && (copy[0] != 'A' || copy[bytes - 1] != 'A')) harm("nothing was copied");
  survived();
}

#endif
