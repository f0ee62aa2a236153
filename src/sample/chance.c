/* chance.c - see chance.h. */
#include "sample/chance.h"

uint64_t chance_mix(uint64_t bits) {
  bits = (bits ^ bits >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  bits = (bits ^ bits >> 27) * UINT64_C(0x94d049bb133111eb);
  return bits ^ bits >> 31;
}

uint64_t chance_next(uint64_t *state) {
  *state += UINT64_C(0x9e3779b97f4a7c15);
  return chance_mix(*state);
}

#define LN_2 0.69314718055994530942

/* ln(bits / 2^64), for bits > 0. ln of a number in [1, 2) is 2 artanh((m - 1) / (m + 1)), a series in at most 1/3. */
static double ln_of_fraction(uint64_t bits) {
  unsigned zeros = (unsigned)__builtin_clzll(bits);
  double mantissa = (double)(bits << zeros >> 11) * 0x1p-52;
  double t = (mantissa - 1) / (mantissa + 1), square = t * t;
  double series = 1 + square * (1.0 / 3 + square * (1.0 / 5 + square * (1.0 / 7 + square / 9)));
  return 2 * t * series - LN_2 * (zeros + 1.0);
}

int64_t chance_exponential(uint64_t *state, int64_t mean) {
  uint64_t bits = chance_next(state) | UINT64_C(1) << 11; /* not 0; 2^-53 at least */
  return (int64_t)(-ln_of_fraction(bits) * (double)mean);
}

/* 1 - e^-x. Halved until the series is short, then 1 - e^-2x = (1 - e^-x) (1 + e^-x). */
static double chance_of(double x) {
  unsigned doublings = 0;
  if (x > 20) return 1;
  while (x > 0.125) {
    x /= 2;
    doublings++;
  }
  double p = x * (1 - x / 2 * (1 - x / 3 * (1 - x / 4 * (1 - x / 5))));
  while (doublings-- > 0) p *= 2 - p;
  return p;
}

uint64_t chance_weight(uint64_t size, double exposure) {
  double weight = (double)size / chance_of(exposure) + 0.5;
  return weight < 0x1p63 ? (uint64_t)weight : UINT64_C(1) << 63;
}
