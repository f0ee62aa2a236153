/* size_class.h - which block sizes exist, and which one a request gets.
 *
 * 16-byte steps to 256 bytes, then 8 classes a doubling to 1 KiB. Above, a class is an exact part of
 * its slab, so that nothing is lost at the slab's end: 16 KiB / k to 2 KiB, 64 KiB / k to 8 KiB,
 * 128 KiB / k to 32 KiB, 256 KiB / k to 64 KiB (docs/decisions/0041). At most an eighth of a block is
 * lost to rounding, from 16 KiB on and right below 4 KiB at most a fifth.
 *
 * The 17th to 19th part of 64 KiB are left out: their requests get blocks of 4096 bytes, each in one page.
 * A block across two pages keeps both resident for as long as it lives (docs/decisions/0012).
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

/* Block sizes above 1 KiB: parts of so many bytes, rounded down to a cache line, so that blocks which are
 * aligned to one find a class as others do. From 4 to 8 KiB to 16 bytes: SQLite's pages with their headers
 * are 4368 bytes, the 15th part. */
#define PART_STEP(part) ((part) > 4 * KIB && (part) <= 8 * KIB ? BLOCK_ALIGNMENT : 64u)
#define PART_SIZE(whole, k) ((uint32_t)((whole) / (k)) & ~(PART_STEP((whole) / (k)) - 1))
/* The k of the smallest part that holds `size` bytes: a part is long enough if the size is, rounded up to the same step. Nobody asks for 0 bytes, but
 * clang looks at what is not chosen, too. */
#define PART_FOR(whole, size)                                                                      \
  ((unsigned)(whole) /                                                                             \
   (((unsigned)(size) + ((size) == 0) + PART_STEP(size) - 1) & ~(unsigned)(PART_STEP(size) - 1)))
/* Number of a part of 64 KiB among the classes: 31 to 20, then 16 to 8. */
#define CLASS_OF_64K(k) ((k) > 19 ? 71 - (k) : (k) > 16 ? 52 : 68 - (k))

/** Size of the blocks of a class, bytes. */
extern const uint32_t class_sizes[CLASS_COUNT] HAK_HIDDEN;
HAK_INLINE uint32_t class_size(unsigned size_class) { return class_sizes[size_class]; }

/* Above 256 bytes: the classes of a doubling are told apart by the three bits below the highest one of the last byte's offset. */
#define LOG2_OF(n)                                                                                 \
  (63u ^ (unsigned)__builtin_clzll(n)) /* GCC makes one instruction of it, not of 63 - clz */
#define CLASS_FOR_LAST(last)                                                                       \
  (16 + (LOG2_OF(last) - 8) * 8 + (unsigned)((last) >> (LOG2_OF(last) - 3) & 7))
#define CLASS_FOR_TINY(size) ((unsigned)((size) == 0 ? 0 : ((size)-1) >> 4))

/** Smallest class that holds `size` (0..SMALL_MAX) bytes, as a constant expression. */
#define CLASS_FOR(size)                                                                            \
  ((size) <= 256        ? CLASS_FOR_TINY(size)                                                     \
   : (size) <= KIB      ? CLASS_FOR_LAST((unsigned long long)(size)-1)                             \
   : (size) <= 2 * KIB  ? 47 - PART_FOR(16 * KIB, size)                                            \
   : (size) <= 8 * KIB  ? CLASS_OF_64K(PART_FOR(64 * KIB, size))                                   \
   : (size) <= 32 * KIB ? 76 - PART_FOR(128 * KIB, size)                                           \
                        : 80 - PART_FOR(256 * KIB, size))

/* Of each multiple of BLOCK_ALIGNMENT up to TABLE_MAX, where its class stands in an array of all classes whose elements have CLASS_PLACE bytes:
 * bins, inboxes. In the hardened variant the place for 0 bytes is behind all of them, where a cache has the head of a bin that stays
 * empty. */
#define TABLE_MAX (4 * KIB)
#define CLASS_PLACE 16u
#define PLACE_OF_0 (HAK_HARDENED ? 3960u : 0u)
extern const uint16_t class_places[TABLE_MAX / BLOCK_ALIGNMENT + 1] HAK_HIDDEN;

/** The place of the class for `size` bytes, at most TABLE_MAX. */
HAK_INLINE size_t class_place_for(size_t size) {
  return class_places[(size + BLOCK_ALIGNMENT - 1) / BLOCK_ALIGNMENT];
}

/* Above TABLE_MAX no two classes end within MID_PIECE bytes: all sizes of a piece have the class of its
 * first one, or the next. */
#define MID_PIECE 256u
extern const uint8_t mid_classes[SMALL_MAX / MID_PIECE] HAK_HIDDEN;

/** The same above TABLE_MAX, without a division. */
HAK_INLINE unsigned class_for_mid(size_t size) {
  unsigned size_class = mid_classes[(size - 1) / MID_PIECE];
  return size_class + (size > class_sizes[size_class]);
}

/** The same of any size that is not known to the compiler. */
HAK_INLINE unsigned class_for(size_t size) {
  if (HAK_HARDENED && size == 0) size = 1; /* its place is no class' (empty.h) */
  return size > TABLE_MAX ? class_for_mid(size) : (unsigned)class_place_for(size) / CLASS_PLACE;
}

/** Slices of a slab of this class: enough for 4 blocks and more. */
HAK_INLINE unsigned class_slices(unsigned size_class) {
  uint32_t size = class_size(size_class);
  return size <= ONE_SLICE_BLOCK_MAX ? 1 : size <= 32 * KIB ? 2 : 4;
}

/* Bit of each class whose size is a multiple of two to the power of the index. */
extern const uint64_t aligned_classes[17][2] HAK_HIDDEN;

/** Smallest class for `size` bytes whose every block is at a multiple of `alignment` (a power of two);
 * CLASS_COUNT when there is none, which is beyond SMALL_MAX. Slabs start at a multiple of 64 KiB, so a class
 * is aligned to whatever divides its size. */
HAK_INLINE unsigned class_for_aligned(size_t size, size_t alignment) {
  if (size < alignment) size = alignment;
  if (size > SMALL_MAX) return CLASS_COUNT;
  unsigned size_class = class_for(size);
  const uint64_t *classes = aligned_classes[__builtin_ctzll(alignment)];
  unsigned at = size_class / 64;
  uint64_t rest = classes[at] >> size_class % 64;
  /* The last class is a multiple of all. */
  return rest != 0 ? size_class + (unsigned)__builtin_ctzll(rest)
                   : 64 + (unsigned)__builtin_ctzll(classes[1]);
}

#endif
