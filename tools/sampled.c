/* sampled.c - see sampled.h.
 *
 * Sample i stands for n blocks (its weight by its size) of B bytes, of which s were asked for. With v = n * B and x = (B - s) / B the share of a class
 * is r = sum(v * x) / sum(v), and its variance sum(v^2 * (x - r)^2) / sum(v)^2: a ratio estimator (Cochran, Sampling Techniques, chapter 6). Where all
 * samples are of one size that is 0, which says little of few of them: half of what x can be at all, by one more than there are, is added.
 */
#define _GNU_SOURCE
#include "sampled.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "resident.h"
#include "slab/size_class.h"

/* Sums over the samples of a class. */
struct sums {
  double blocks, asked, held, wasted; /* n, n * s, v, v * x */
  double squares, products, wastes;   /* v^2, v^2 * x, v^2 * x^2 */
  uint64_t samples;
};

struct finder {
  struct sampled *sampled;
  const struct snapshot *snapshot;
  uint64_t slice, unit, page;
  struct sums sums[ROUNDINGS];
  /* Samples lie in slots of slabs of their own: bytes of these by class, and what is not asked for in them, which is no estimate. */
  double slots[CLASSES_MOST], slots_wasted[CLASSES_MOST];
};

double sampled_waste(const struct live_sample *sample, uint32_t size) {
  return size > sample->size ? (double)(size - sample->size) : 0;
}

static void add(struct sums *sums, const struct live_sample *sample, double held, double wasted) {
  double blocks = (double)sample->weight / (double)sample->size;
  double v = blocks * held, x = held > 0 ? wasted / held : 0;
  sums->samples++;
  sums->blocks += blocks;
  sums->asked += blocks * (double)sample->size;
  sums->held += v;
  sums->wasted += v * x;
  sums->squares += v * v;
  sums->products += v * v * x;
  sums->wastes += v * v * x * x;
}

/* --- small blocks ---------------------------------------------------------------------------------------------- */

/* As sample/sample.c: 1 KiB, 4 KiB, then powers of two. A larger alignment than that is not known of a sample. */
static void add_slot(struct finder *finder, uint64_t size) {
  enum { LEAST = 1024, STEP = 4, STEP_ABOVE = 2, ABOVE = 4096 };
  uint64_t slot = LEAST;
  while (slot < size) slot *= slot < ABOVE ? STEP : STEP_ABOVE;
  for (unsigned c = 0; c < CLASSES_MOST; c++) {
    if (finder->snapshot->classes[c].size < slot) continue;
    finder->slots[c] += (double)finder->snapshot->classes[c].size;
    finder->slots_wasted[c] += (double)(finder->snapshot->classes[c].size - size);
    return;
  }
}

/* What a block of the class can be at least, less one: by our own sizes, if they are the library's. */
static uint32_t smaller(uint32_t size, unsigned c) {
  enum { STEP = 16, PARTS_OF_SIZE = 8 };
  if (c > 0 && c < CLASS_COUNT && class_size(c) == size) return class_size(c - 1);
  uint32_t step = size / PARTS_OF_SIZE > STEP ? size / PARTS_OF_SIZE : STEP;
  return size > step ? size - step : 0;
}

/* --- Large and Huge blocks ------------------------------------------------------------------------------------- */

/* A Large block has whole slices, of which the last pages mostly were never touched; a Huge one ends with a page, beyond which all is slack. */
static void add_large(struct finder *finder, const struct live_sample *sample,
                      const struct resident *pages) {
  uint64_t start = sample->address, end = start + sample->size, page = finder->page;
  uint64_t touched = (end + page - 1) / page * page;
  if (sample->size > finder->unit / 2) {
    add(&finder->sums[ROUNDING_HUGE], sample, (double)(touched - start), (double)(touched - end));
    return;
  }
  uint64_t last = (end + finder->slice - 1) / finder->slice * finder->slice;
  uint64_t used = resident_bytes(pages, start, touched);
  uint64_t behind =
      used > 0 && resident_bytes(pages, touched - page, touched) > 0 ? touched - end : 0;
  behind += resident_bytes(pages, touched, last);
  add(&finder->sums[ROUNDING_LARGE], sample, (double)(used + resident_bytes(pages, touched, last)),
      (double)behind);
}

/* --- all of it --------------------------------------------------------------------------------------------------- */

static void add_samples(struct finder *finder, const struct profile *profile,
                        const struct remote *remote) {
  enum { LOOKED_AT = 4096 }; /* each costs some system calls */
  struct resident pages;
  bool open = resident_open_pages(&pages, remote_target(remote));
  uint32_t classes = remote->layout.heap.classes;
  size_t large = 0, seen = 0;
  for (size_t i = 0; i < profile->live_count; i++) large += profile->live[i].size_class >= classes;
  for (size_t i = 0; i < profile->live_count; i++) {
    const struct live_sample *sample = &profile->live[i];
    unsigned c = sample->size_class;
    if (c >= classes) {
      if (open && seen++ % (large / LOOKED_AT + 1) == 0) add_large(finder, sample, &pages);
      continue;
    }
    if (c >= CLASSES_MOST) continue;
    uint32_t size = finder->snapshot->classes[c].size;
    if (sample->size > size) continue; /* of a core that is damaged, or a process that lies */
    add_slot(finder, sample->size);
    add(&finder->sums[c], sample, size, sampled_waste(sample, size));
  }
  if (open) resident_close(&pages);
}

/* Of `live` bytes, of which a share from `least` to `most` may be rounding. */
static struct rounding estimate(const struct sums *sums, double live, double least, double most) {
  double r = (least + most) / 2, variance = 0, half = (most - least) / 2;
  struct rounding rounding = {.samples = sums->samples};
  if (sums->held > 0) {
    r = sums->wasted / sums->held;
    variance =
        (sums->wastes - 2 * r * sums->products + r * r * sums->squares) / (sums->held * sums->held);
    rounding.asked = sums->asked / sums->blocks;
  }
  half /= (double)(sums->samples + 1);
  variance = (variance > 0 ? variance : 0) + half * half;
  rounding.bytes = live * r;
  rounding.error = 2 * live * sqrt(variance);
  return rounding;
}

static void add_rounding(struct sampled *sampled, unsigned c, struct rounding rounding) {
  sampled->classes[c] = rounding;
  sampled->rounding += rounding.bytes;
  sampled->error += rounding.error * rounding.error;
}

static void estimate_all(struct finder *finder) {
  const struct snapshot *snapshot = finder->snapshot;
  struct sampled *sampled = finder->sampled;
  for (unsigned c = 0; c < CLASSES_MOST; c++) {
    const struct class_figures *figures = &snapshot->classes[c];
    double live = figures->live - finder->slots[c];
    if (figures->size == 0) continue;
    double most = 1 - (double)(smaller(figures->size, c) + 1) / (double)figures->size;
    struct rounding rounding = estimate(&finder->sums[c], live > 0 ? live : 0, 0, most);
    rounding.slots = finder->slots_wasted[c];
    rounding.bytes += rounding.slots;
    add_rounding(sampled, c, rounding);
  }
  const double large = 0.25, huge = (double)finder->page / (double)finder->unit;
  add_rounding(sampled, ROUNDING_LARGE,
               estimate(&finder->sums[ROUNDING_LARGE], snapshot->large_resident, 0, large));
  add_rounding(sampled, ROUNDING_HUGE,
               estimate(&finder->sums[ROUNDING_HUGE], snapshot->huge_resident, 0, huge));
  sampled->error = sqrt(sampled->error);
  if (sampled->rounding > snapshot->live) sampled->rounding = snapshot->live;
  sampled->asked = snapshot->live - sampled->rounding;
}

bool sampled_find(struct sampled *sampled, const struct snapshot *snapshot,
                  const struct profile *profile, const struct remote *remote) {
  struct finder *finder = calloc(1, sizeof *finder);
  *sampled = (struct sampled){.known = profile->samples > 0 && !snapshot->counted,
                              .ended = remote->core != NULL,
                              .peak = peak_find(profile, (double)snapshot->in_use),
                              .samples = profile->live_samples};
  if (finder == NULL) return false;
  finder->sampled = sampled;
  finder->snapshot = snapshot;
  finder->slice = UINT64_C(1) << remote->layout.map.slice_shift;
  finder->unit = UINT64_C(1) << remote->layout.map.unit_shift;
  finder->page = (uint64_t)sysconf(_SC_PAGESIZE);
  add_samples(finder, profile, remote);
  estimate_all(finder);
  free(finder);
  return true;
}

struct sampled *sampled_read(const struct snapshot *snapshot, const struct remote *remote) {
  struct profile profile;
  if (remote->shared || remote->samples == 0 || profile_look(&profile, remote) != NULL) return NULL;
  struct sampled *sampled = calloc(1, sizeof *sampled);
  if (sampled != NULL && !(sampled_find(sampled, snapshot, &profile, remote) && sampled->known)) {
    free(sampled);
    sampled = NULL;
  }
  profile_free(&profile);
  return sampled;
}
