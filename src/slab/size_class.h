/* size_class.h - which block sizes exist, and which one a request gets.
 *
 * 16-byte steps to 256 bytes, then 8 classes a doubling to 64 KiB: at most 12.5% of a block is lost
 * to rounding. 8 a doubling instead of 4 made mixed sizes 8% faster and took 2-25% less memory
 * (docs/decisions/0006). Three of them are left out: 1920, 3584 and 3840 share the classes of 2048 and 4096,
 * whose blocks lie in one page each. A block across two pages keeps both resident for as long as it
 * lives: 5% of 512 MiB alive at random hold 59 MiB instead of 64, for 2% more when all of it is (0012).
 * Everything here is constant and folds into the caller.
 */
#ifndef HAK_SIZE_CLASS_H
#define HAK_SIZE_CLASS_H

#include "os/os.h"
#include "superslab/superslab.h"

#define BLOCK_ALIGNMENT 16u
#define CLASS_COUNT 77u
#define SMALL_MAX ((size_t)64 * KIB) /* largest block of a slab: the Tiny and Mid tiers */
#define TINY_MAX ((size_t)1024)
#define ONE_SLICE_BLOCK_MAX (8 * KIB) /* largest block of a slab of one slice */

/* Numbers in the full series of 8 classes a doubling, where 1920 is the 38th and 3584 the 45th. */
#define SERIES_1920 38u
#define SERIES_3584 45u
#define CLASS_OF_SERIES(number)                                                                    \
  ((number) - ((number) > SERIES_1920) - ((number) > SERIES_3584) - ((number) > SERIES_3584 + 1))

/* The inverse of CLASS_OF_SERIES. */
#define SERIES_OF(size_class)                                                                      \
  ((size_class) + ((size_class) >= SERIES_1920) + ((size_class) + 1 >= SERIES_3584 ? 2 : 0))
#define SIZE_OF_SERIES(number)                                                                     \
  ((256u << ((number)-16) / 8) + (((number)-16) % 8 + 1) * (32u << ((number)-16) / 8))

/** Size of the blocks of a class, bytes. */
HAK_INLINE uint32_t class_size(unsigned size_class) {
  return size_class < 16 ? (size_class + 1) * 16 : SIZE_OF_SERIES(SERIES_OF(size_class));
}

/** The same where it is not known to the compiler, and asked for often. */
extern const uint32_t class_sizes[CLASS_COUNT] HAK_HIDDEN;

/* Above 256 bytes: the classes of a doubling are told apart by the three bits below the highest one of the last byte's offset. */
#define LOG2_OF(n)                                                                                 \
  (63u ^ (unsigned)__builtin_clzll(n)) /* GCC makes one instruction of it, not of 63 - clz */
#define CLASS_FOR_LAST(last)                                                                       \
  CLASS_OF_SERIES(16 + (LOG2_OF(last) - 8) * 8 + (unsigned)((last) >> (LOG2_OF(last) - 3) & 7))

#define CLASS_FOR_TINY(size) ((unsigned)((size) == 0 ? 0 : ((size)-1) >> 4))

/** Smallest class that holds `size` (0..SMALL_MAX) bytes. */
HAK_INLINE unsigned class_for(size_t size) {
  if (size <= 256) return CLASS_FOR_TINY(size);
  return CLASS_FOR_LAST((unsigned long long)size - 1);
}

/** The same above 4 KiB, where all three classes that are left out lie below. `leading`: four bits, 8 to 15, of the last byte's offset. */
HAK_INLINE unsigned class_for_mid(size_t size) {
  unsigned log2 = LOG2_OF((unsigned long long)size - 1);
  unsigned leading = (unsigned)((size - 1) >> (log2 - 3));
  return 16 + 8 * (log2 - 8) + (leading - 8) - 3;
}

/** The same as a constant expression. */
#define CLASS_FOR(size)                                                                            \
  ((size) <= 256 ? CLASS_FOR_TINY(size) : CLASS_FOR_LAST((unsigned long long)(size)-1))

/** Slices of a slab of this class: enough for 8 blocks and more, so that the bytes lost at a slab's end
 * stay under 12.5%; in fresh memory they are never touched. */
HAK_INLINE unsigned class_slices(unsigned size_class) {
  uint32_t size = class_size(size_class);
  return size <= ONE_SLICE_BLOCK_MAX ? 1 : size <= 16 * KIB ? 2 : size <= 32 * KIB ? 4 : 8;
}

/** Smallest class for `size` bytes whose every block is at a multiple of `alignment` (a power of two);
 * CLASS_COUNT when there is none, which is beyond SMALL_MAX. Slabs start at a multiple of 64 KiB, so a class
 * is aligned to whatever divides its size. */
HAK_INLINE unsigned class_for_aligned(size_t size, size_t alignment) {
  if (size < alignment) size = alignment;
  if (size > SMALL_MAX) return CLASS_COUNT;
  /* Of a multiple of the alignment. Either the alignment divides the step between the classes there, or the step divides it: then the
   * multiple is the size of a class, or of one of the three that share the next power of two. */
  return class_for((size + alignment - 1) & ~(alignment - 1));
}

#endif
