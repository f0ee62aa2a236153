/* random.h - numbers that follow from a seed: Sebastiano Vigna's SplitMix64. */
#ifndef HAK_FUZZ_RANDOM_H
#define HAK_FUZZ_RANDOM_H

#include <stdint.h>

static inline uint64_t random_mixed(uint64_t x) {
  x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
  return x ^ (x >> 31);
}

static inline uint64_t random_draw(uint64_t *state) {
  return random_mixed(*state += UINT64_C(0x9e3779b97f4a7c15));
}

#endif
