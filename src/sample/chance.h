/* chance.h - the sampler's arithmetic. No libm: an allocator has libc alone. */
#ifndef HAK_CHANCE_H
#define HAK_CHANCE_H

#include <stdint.h>

/** Mixes 64 bits as by chance (SplitMix64, Steele, Lea and Flood 2014). */
uint64_t chance_mix(uint64_t bits);

/** The next number of a sequence, whose state is any number. */
uint64_t chance_next(uint64_t *state);

/** A number of the exponential distribution with this mean (at least 1): 0 .. 37 times the mean. To one part in 10^6. */
int64_t chance_exponential(uint64_t *state, int64_t mean);

/** size / (1 - e^-exposure), rounded: what a sample of this size (at least 1) stands for, with its bytes by the rates that they were
 * drawn with, added up, as exposure (above 0). To one part in 10^6; at most UINT64_MAX / 2. */
uint64_t chance_weight(uint64_t size, double exposure);

#endif
