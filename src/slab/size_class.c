/* size_class.c - see size_class.h. In a file of its own, since the tool `hakmem` has it too. */
#include "slab/size_class.h"

#define T4(n) 16 * (n) + 16, 16 * (n) + 32, 16 * (n) + 48, 16 * (n) + 64,
#define D4(n, step) (n) + (step), (n) + 2 * (step), (n) + 3 * (step), (n) + 4 * (step),
#define P1(whole, k) PART_SIZE((whole)*KIB, k),
#define P4(whole, k) P1(whole, k) P1(whole, (k)-1) P1(whole, (k)-2) P1(whole, (k)-3)
const uint32_t class_sizes[CLASS_COUNT] = {
    /* to 256, 512 and 1024 */
    T4(0) T4(4) T4(8) T4(12) D4(256, 32) D4(384, 32) D4(512, 64) D4(768, 64)
    /* to 2 and 4 KiB */
    P4(16, 15) P4(16, 11) P4(64, 31) P4(64, 27) P4(64, 23) P1(64, 16)
    /* to 8, 32 and 64 KiB */
    P4(64, 15) P4(64, 11) P4(128, 15) P4(128, 11) P4(128, 7) P4(256, 7)};
_Static_assert(CLASS_FOR(SMALL_MAX) + 1 == CLASS_COUNT, "all of them");

/* Of the first byte of each piece; those below MID_LEAST are not looked at. */
#define M1(i) (uint8_t)(CLASS_FOR((i)*MID_PIECE + 1)),
#define M4(i) M1(i) M1((i) + 1) M1((i) + 2) M1((i) + 3)
#define M16(i) M4(i) M4((i) + 4) M4((i) + 8) M4((i) + 12)
#define M64(i) M16(i) M16((i) + 16) M16((i) + 32) M16((i) + 48)
const uint8_t mid_classes[SMALL_MAX / MID_PIECE] = {M64(0) M64(64) M64(128) M64(192)};
