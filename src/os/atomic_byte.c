/* atomic_byte.c - atomic changes of single bytes on RISC-V, whose instructions know words of 4 bytes and more. gcc before 13 calls
 * functions of libatomic for them; those are these, so that no program has to be linked with that library, or start it. */
#include <stdbool.h>
#include <stdint.h>

#include "os/os.h"

#if defined(__riscv) && defined(__GNUC__) && !defined(__clang__)

/* By their names in the object file: in C the compiler takes them for its own. */
bool byte_compare_exchange(volatile void *at, void *expected, unsigned char desired, int success,
                           int failure) __asm__("__atomic_compare_exchange_1") HAK_HIDDEN;
unsigned char byte_exchange(volatile void *at, unsigned char desired,
                            int order) __asm__("__atomic_exchange_1") HAK_HIDDEN;

struct place {
  uint32_t *word; /* that the byte lies in */
  unsigned shift;
};

static struct place place_of(volatile void *at) {
  return (struct place){(uint32_t *)((uintptr_t)at & ~(uintptr_t)3),
                        (unsigned)((uintptr_t)at & 3) * 8};
}

static uint32_t with(struct place place, uint32_t word, unsigned char byte) {
  return (word & ~(UINT32_C(0xff) << place.shift)) | (uint32_t)byte << place.shift;
}

/* The strictest order, whatever was asked for. Fails for no other reason than the byte: its neighbours change as they like. */
bool byte_compare_exchange(volatile void *at, void *expected, unsigned char desired, int success,
                           int failure) {
  struct place place = place_of(at);
  unsigned char *wanted = expected;
  uint32_t word = __atomic_load_n(place.word, __ATOMIC_SEQ_CST);
  (void)success, (void)failure;
  do {
    unsigned char found = (unsigned char)(word >> place.shift);
    if (found != *wanted) {
      *wanted = found;
      return false;
    }
  } while (!__atomic_compare_exchange_n(place.word, &word, with(place, word, desired), true,
                                        __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
  return true;
}

unsigned char byte_exchange(volatile void *at, unsigned char desired, int order) {
  struct place place = place_of(at);
  uint32_t word = __atomic_load_n(place.word, __ATOMIC_SEQ_CST);
  (void)order;
  while (!__atomic_compare_exchange_n(place.word, &word, with(place, word, desired), true,
                                      __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
    continue;
  return (unsigned char)(word >> place.shift);
}

#endif
