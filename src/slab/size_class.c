/* size_class.c - see size_class.h. In a file of its own, since the tool `hakmem` has it too. */
#include "slab/size_class.h"

/* EACH(how, size) for the sizes of all classes, from the smallest: to 256, 512 and 1024 bytes; to 2 and 4 KiB; to 8, 32 and 64 KiB. */
#define P1(EACH, how, whole, k) EACH(how, PART_SIZE((whole)*KIB, k))
/* clang-format off */
#define E4(EACH, how, n, step) \
  EACH(how, (n) + (step)) EACH(how, (n) + 2 * (step)) EACH(how, (n) + 3 * (step)) EACH(how, (n) + 4 * (step))
#define P4(EACH, how, whole, k) \
  P1(EACH, how, whole, k) P1(EACH, how, whole, (k)-1) P1(EACH, how, whole, (k)-2) P1(EACH, how, whole, (k)-3)
#define CLASSES(EACH, how) \
  E4(EACH, how, 0, 16) E4(EACH, how, 64, 16) E4(EACH, how, 128, 16) E4(EACH, how, 192, 16) \
  E4(EACH, how, 256, 32) E4(EACH, how, 384, 32) E4(EACH, how, 512, 64) E4(EACH, how, 768, 64) \
  P4(EACH, how, 16, 15) P4(EACH, how, 16, 11) \
  P4(EACH, how, 64, 31) P4(EACH, how, 64, 27) P4(EACH, how, 64, 23) P1(EACH, how, 64, 16) \
  P4(EACH, how, 64, 15) P4(EACH, how, 64, 11) \
  P4(EACH, how, 128, 15) P4(EACH, how, 128, 11) P4(EACH, how, 128, 7) P4(EACH, how, 256, 7)
/* clang-format on */

#define SIZE(how, size) size,
const uint32_t class_sizes[CLASS_COUNT] = {CLASSES(SIZE, )};
_Static_assert(CLASS_FOR(SMALL_MAX) + 1 == CLASS_COUNT, "all of them");

#define B1(i) (uint16_t)(CLASS_PLACE * CLASS_FOR((size_t)(i)*BLOCK_ALIGNMENT)),
#define B4(i) B1(i) B1((i) + 1) B1((i) + 2) B1((i) + 3)
#define B16(i) B4(i) B4((i) + 4) B4((i) + 8) B4((i) + 12)
#define B64(i) B16(i) B16((i) + 16) B16((i) + 32) B16((i) + 48)
const uint16_t class_places[TABLE_MAX / BLOCK_ALIGNMENT + 1] = {
    PLACE_OF_0,
    B1(1) B1(2) B1(3) B4(4) B4(8) B4(12) B16(16) B16(32) B16(48) B64(64) B64(128) B64(192) B1(256)};

/* Of the first byte of each piece; those below TABLE_MAX are not looked at. */
#define M1(i) (uint8_t)(CLASS_FOR((i)*MID_PIECE + 1)),
#define M4(i) M1(i) M1((i) + 1) M1((i) + 2) M1((i) + 3)
#define M16(i) M4(i) M4((i) + 4) M4((i) + 8) M4((i) + 12)
#define M64(i) M16(i) M16((i) + 16) M16((i) + 32) M16((i) + 48)
const uint8_t mid_classes[SMALL_MAX / MID_PIECE] = {M64(0) M64(64) M64(128) M64(192)};

#define BIT(alignment, word, size)                                                                 \
  | ((size) % (alignment) == 0 && CLASS_FOR(size) / 64 == (word)                                   \
         ? UINT64_C(1) << CLASS_FOR(size) % 64                                                     \
         : 0)
#define LOW(alignment, size) BIT(alignment, 0, size)
#define HIGH(alignment, size) BIT(alignment, 1, size)
#define A1(alignment) {UINT64_C(0) CLASSES(LOW, alignment), UINT64_C(0) CLASSES(HIGH, alignment)},
#define A4(alignment) A1(alignment) A1(2 * (alignment)) A1(4 * (alignment)) A1(8 * (alignment))
const uint64_t aligned_classes[17][2] = {A4(1) A4(16) A4(256) A4(4096) A1(SMALL_MAX)};
