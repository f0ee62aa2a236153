/* explain_holders.c - see explain.h: who allocated the live blocks of one size.
 *
 * Samples lie in slabs of their own, so none is on the pages in question. What they tell is who holds blocks of this size at all. Where
 * most blocks of a size are gone, these are the ones that keep the pages.
 */
#include <stdlib.h>
#include <string.h>

#include "explain.h"

static int by_place(const void *a, const void *b) {
  const struct live_sample *left = a, *right = b;
  return left->place < right->place ? -1 : left->place > right->place;
}

static int by_share(const void *a, const void *b) {
  double left = ((const struct holder *)a)->share, right = ((const struct holder *)b)->share;
  return left < right ? 1 : left > right ? -1 : 0;
}

static double counted(const struct holders_of *of, const struct live_sample *sample) {
  if (of->rounded_to == 0) return (double)sample->weight;
  return (double)sample->weight / (double)sample->size * sampled_waste(sample, of->rounded_to);
}

static void add(struct holder *holder, const struct holders_of *of,
                const struct live_sample *sample) {
  if (holder->samples == 0 || sample->age_ms < holder->youngest_ms)
    holder->youngest_ms = sample->age_ms;
  if (sample->age_ms > holder->oldest_ms) holder->oldest_ms = sample->age_ms;
  holder->share += counted(of, sample);
  holder->samples++;
}

/* The samples of the class, sorted by place, as holders. */
static size_t gather(const struct live_sample *samples, size_t count, struct holder *holders,
                     const struct holders_of *of, const struct profile *profile) {
  size_t found = 0;
  for (size_t i = 0; i < count; i++) {
    if (i == 0 || samples[i].place != samples[i - 1].place)
      holders[found++] = (struct holder){.site = profile_site(profile, samples[i].place)};
    add(&holders[found - 1], of, &samples[i]);
  }
  return found;
}

static bool is_of(const struct live_sample *sample, const struct holders_of *of) {
  return sample->size_class == of->size_class && (of->most == 0 || sample->size <= of->most);
}

bool explain_holders(struct holders *holders, const struct holders_of *of,
                     const struct profile *profile) {
  size_t count = 0;
  double all = 0;
  if (profile == NULL) return true;
  struct live_sample *samples = calloc(profile->live_count + 1, sizeof *samples);
  struct holder *found = calloc(profile->live_count + 1, sizeof *found);
  for (size_t i = 0; samples != NULL && i < profile->live_count; i++) {
    if (!is_of(&profile->live[i], of)) continue;
    samples[count++] = profile->live[i];
    all += counted(of, &profile->live[i]);
  }
  holders->samples = count;
  if (found != NULL && all > 0) {
    qsort(samples, count, sizeof *samples, by_place);
    size_t places = gather(samples, count, found, of, profile);
    for (size_t i = 0; i < places; i++) found[i].share /= all;
    qsort(found, places, sizeof *found, by_share);
    holders->count = places < HOLDERS_MOST ? (unsigned)places : HOLDERS_MOST;
    memcpy(holders->all, found, holders->count * sizeof *found);
  }
  bool done = samples != NULL && found != NULL;
  free(samples);
  free(found);
  return done;
}
