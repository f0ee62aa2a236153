/* peak.h - the most that ever lived, by a profile's samples, and how far that may be off. */
#ifndef HAKMEM_PEAK_H
#define HAKMEM_PEAK_H

#include "profile.h"

struct peak {
  double bytes;         /* not below what lives now; 0: there was no sample */
  double error;         /* in 19 of 20 cases the truth is no farther away */
  double sampled;       /* what the samples stood for */
  uint64_t samples, ms; /* how many they were, and how long ago that was */
};

/** `live`: bytes in live blocks, which are counted. */
struct peak peak_find(const struct profile *profile, double live);

#endif
