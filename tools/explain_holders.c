/* explain_holders.c - see explain.h: who allocated the live blocks of one size.
 *
 * Samples lie in slabs of their own, so none is on the pages in question. What they tell is who holds blocks of this size at all. Where
 * most blocks of a size are gone, these are the ones that keep the pages.
 */
#include <stdlib.h>

#include "explain.h"

static int by_place(const void *a, const void *b) {
  const struct live_sample *left = a, *right = b;
  return left->place < right->place ? -1 : left->place > right->place;
}

static int by_share(const void *a, const void *b) {
  double left = ((const struct holder *)a)->share, right = ((const struct holder *)b)->share;
  return left < right ? 1 : left > right ? -1 : 0;
}

static void add(struct holder *holder, const struct live_sample *sample) {
  if (holder->samples == 0 || sample->age_ms < holder->youngest_ms)
    holder->youngest_ms = sample->age_ms;
  if (sample->age_ms > holder->oldest_ms) holder->oldest_ms = sample->age_ms;
  holder->share += (double)sample->weight;
  holder->samples++;
}

/* The samples of the class, sorted by place, as holders. */
static size_t gather(const struct live_sample *samples, size_t count, struct holder *holders,
                     const struct profile *profile) {
  size_t found = 0;
  for (size_t i = 0; i < count; i++) {
    if (i == 0 || samples[i].place != samples[i - 1].place)
      holders[found++] = (struct holder){.site = profile_site(profile, samples[i].place)};
    add(&holders[found - 1], &samples[i]);
  }
  return found;
}

bool explain_holders(struct reason *reason, unsigned size_class, const struct profile *profile) {
  size_t count = 0;
  double all = 0;
  if (profile == NULL) return true;
  struct live_sample *samples = calloc(profile->live_count + 1, sizeof *samples);
  struct holder *holders = calloc(profile->live_count + 1, sizeof *holders);
  for (size_t i = 0; samples != NULL && i < profile->live_count; i++) {
    if (profile->live[i].size_class != size_class) continue;
    samples[count++] = profile->live[i];
    all += (double)profile->live[i].weight;
  }
  reason->samples = count;
  if (holders != NULL && count > 0) {
    qsort(samples, count, sizeof *samples, by_place);
    size_t found = gather(samples, count, holders, profile);
    for (size_t i = 0; i < found; i++) holders[i].share /= all;
    qsort(holders, found, sizeof *holders, by_share);
    for (size_t i = 0; i < found && i < HOLDERS_MOST; i++) reason->holders[i] = holders[i];
    reason->holder_count = found < HOLDERS_MOST ? (unsigned)found : HOLDERS_MOST;
  }
  bool done = samples != NULL && holders != NULL;
  free(samples);
  free(holders);
  return done;
}
