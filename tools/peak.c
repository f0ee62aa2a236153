/* peak.c - see peak.h.
 *
 * A sample stands for w bytes and is s bytes long. It was taken by a chance of s / w, so it adds w * (w - s) to the variance of the sum (Horvitz and
 * Thompson). Of the peak each stack has sums alone, so w and s are means of the stack. Those of few samples lie below the truth as often as above it, but
 * then their variance is too small as well: one more sample is added, by which 19 of 20 intervals hold also with five to ten samples.
 *
 * The peak is the highest of many estimates. As often as a program has renewed what lived at the peak, so many of them are independent, k. The highest of
 * k is in 19 of 20 cases within sqrt(4 + 2 ln k) standard errors.
 *
 * The largest resident memory (VmHWM) is no bound: pages that were never touched, or are in swap, are not resident, and nobody knows how many these were.
 */
#include "peak.h"

#include <math.h>

/* Of `samples` that stand for `bytes` in `blocks`. */
static double variance(double samples, double bytes, double blocks) {
  if (samples < 1 || bytes <= 0) return 0;
  double weight = bytes / samples, size = blocks > 0 ? bytes / blocks : 0;
  return size < weight ? samples * weight * (weight - size) : 0;
}

static double error_of(const struct profile *profile) {
  double samples = (double)profile->peak_samples, sum = 0, rest = profile->peak_bytes;
  double rest_samples = samples, allocated = 0;
  for (size_t i = 0; i < profile->site_count; i++) {
    const struct site *site = &profile->sites[i];
    sum += variance((double)site->peak.samples, site->peak.bytes, site->peak.blocks);
    rest -= site->peak.bytes;
    rest_samples -= (double)site->peak.samples;
    allocated += (double)site->samples.allocated;
  }
  sum += variance(rest_samples, rest, 0); /* of no known stack */
  double renewed = allocated > samples ? allocated / samples : 1;
  double one = profile->peak_bytes / samples;
  return sqrt((4 + 2 * log(renewed)) * sum) + (sum > 0 ? one : 0);
}

struct peak peak_find(const struct profile *profile, double live) {
  struct peak peak = {.sampled = profile->peak_bytes,
                      .bytes = profile->peak_bytes,
                      .samples = profile->peak_samples,
                      .ms = profile->peak_ms};
  if (peak.samples == 0) return peak;
  double error = error_of(profile);
  if (peak.bytes < live) peak.bytes = live;
  /* Rounding is in what lives, but not in the peak: at least half of a block was asked for. */
  double least = fmax(peak.sampled - error, live / 2), most = peak.sampled + error;
  peak.error = fmax(peak.bytes - least, most - peak.bytes);
  return peak;
}
