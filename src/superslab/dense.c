/* dense.c - see dense.h. */
#include "superslab/dense.h"

#include <string.h>

/* A verdict serves so many new blocks, twice as many each time that it is confirmed: a sample takes the page faults
 * that the others save. */
enum { LASTS_LEAST = 16, LASTS_MOST = 256 };

/* A block may be written some time after it was allocated: a sample is looked at so often, once for each new block.
 * Slices of a SuperSlab are used by one block after the other, and so fill up. */
enum { CHECKS_MOST = 16 };

/* Under superslab_lock. */
static struct kind {
  struct superslab *sample; /* NULL: there is none */
  uint16_t left;            /* new blocks that the verdict still serves */
  uint16_t lasts;           /* as many as it served from the start */
  uint8_t checks;           /* at the sample, which did not decide */
  bool dense;               /* the verdict */
} kinds[DENSE_KINDS] = {[DENSE_SPANS] = {.dense = true}};

void dense_forget_all(void) {
  memset(kinds, 0, sizeof kinds);
  kinds[DENSE_SPANS].dense = true;
}

/* Where a sample lies, and what could be written of it so far: slices that were never handed out are not asked for. */
static char *place_of(const struct superslab *superslab, size_t *bytes) {
  if (superslab->huge_units == 0) {
    uint32_t untouched = superslab->free_mask & ~superslab->dirty_mask;
    *bytes = (SLICES_PER_UNIT - (size_t)__builtin_popcount(untouched)) << SLICE_SHIFT;
    return superslab->base;
  }
  size_t at = dense_sample_unit(superslab->huge_units) << UNIT_SHIFT;
  size_t behind = superslab->huge_usable > at ? superslab->huge_usable - at : 0;
  *bytes = behind < UNIT_BYTES ? behind : UNIT_BYTES;
  return superslab->base + at;
}

static bool is_sample(const struct superslab *superslab) {
  return atomic_load_explicit(&superslab->sample, memory_order_relaxed);
}

static enum dense_kind kind_of(const struct superslab *superslab) {
  return superslab->huge_units != 0 ? (enum dense_kind)superslab->huge_units : DENSE_SPANS;
}

void dense_forget(struct superslab *superslab) {
  if (!is_sample(superslab)) return;
  atomic_store_explicit(&superslab->sample, false, memory_order_relaxed);
  struct kind *kind = &kinds[kind_of(superslab)];
  if (kind->sample != superslab) return; /* since before a fork: see dense_forget_all */
  kind->sample = NULL;
  kind->checks = 0;
}

static void decide(struct kind *kind, bool dense) {
  bool confirmed = kind->lasts != 0 && kind->dense == dense;
  kind->lasts = !confirmed                     ? LASTS_LEAST
                : kind->lasts < LASTS_MOST / 2 ? (uint16_t)(kind->lasts * 2)
                                               : LASTS_MOST;
  kind->left = kind->lasts;
  kind->dense = dense;
  dense_forget(kind->sample);
  /* Huge blocks of another length, of which nothing is known yet, are likely to be used in the same way. */
  for (int i = DENSE_SPANS + 1; i < DENSE_KINDS && kind != &kinds[DENSE_SPANS]; i++) {
    if (kinds[i].lasts != 0) continue;
    kinds[i].lasts = LASTS_LEAST / 2; /* to be confirmed by a sample of its own */
    kinds[i].left = LASTS_LEAST;
    kinds[i].dense = dense;
  }
}

/* Looks at the sample; the lock is let go meanwhile, and whoever frees the sample or decides by it in between is
 * heeded. What is mapped no more has nothing in memory. Where the system does not tell, what is expected stays so. */
static void check_sample(struct kind *kind, bool last) {
  struct superslab *sample = kind->sample;
  size_t bytes, now;
  char *place = place_of(sample, &bytes);
  if (bytes < UNIT_BYTES / 2) { /* too little to decide by */
    if (++kind->checks == CHECKS_MOST) dense_forget(sample);
    return;
  }
  lock_release(&superslab_lock);
  size_t resident;
  bool told = os_resident_part(place, UNIT_BYTES, &resident);
  lock_acquire(&superslab_lock);
  if (kind->sample != sample || place_of(sample, &now) != place) return;
  bool dense = told ? resident >= bytes / 4 * 3 : kind->dense;
  if (dense || last || !told || ++kind->checks == CHECKS_MOST) decide(kind, dense);
}

static void propose(struct kind *kind, struct superslab *superslab) {
  if (superslab == NULL || kind->sample != NULL || kind->left > 0) return;
  kind->sample = superslab;
  atomic_store_explicit(&superslab->sample, true, memory_order_relaxed);
}

enum dense_answer dense_expected(enum dense_kind of, struct superslab *superslab) {
  struct kind *kind = &kinds[of];
  lock_acquire(&superslab_lock);
  if (kind->left == 0 && kind->sample != NULL) check_sample(kind, false);
  propose(kind, superslab);
  if (kind->left > 0) kind->left--;
  enum dense_answer answer = kind->dense ? DENSE_YES : DENSE_NO;
  if (superslab != NULL && kind->sample == superslab)
    answer = kind->dense || kind->lasts == 0 ? DENSE_BUT_SAMPLE : DENSE_NO;
  lock_release(&superslab_lock);
  return answer;
}

void dense_offer(enum dense_kind of, struct superslab *superslab) {
  lock_acquire(&superslab_lock);
  propose(&kinds[of], superslab);
  lock_release(&superslab_lock);
}

void dense_last_check(struct superslab *superslab) {
  if (!is_sample(superslab)) return; /* nobody else makes it one */
  lock_acquire(&superslab_lock);
  struct kind *kind = &kinds[kind_of(superslab)];
  if (kind->sample == superslab) check_sample(kind, true);
  dense_forget(superslab);
  lock_release(&superslab_lock);
}
