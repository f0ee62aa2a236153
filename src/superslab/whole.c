/* whole.c - see whole.h. */
#include "superslab/whole.h"

#include <string.h>

/* A verdict serves so many new blocks, twice as many each time that it is confirmed: a sample takes the page faults
 * that the others save. */
enum { LASTS_LEAST = 16, LASTS_MOST = 256 };

/* A block may be written some time after it was allocated: a sample is looked at so often, once for each new block.
 * Slices of a SuperSlab are used by one block after the other, and so fill up. */
enum { LOOKS_MOST = 16 };

/* Under superslab_lock. */
static struct kind {
  struct superslab *sample; /* NULL: there is none */
  uint16_t left;            /* new blocks that the verdict still serves */
  uint16_t lasts;           /* as many as it served from the start */
  uint8_t looks;            /* at the sample, which did not decide */
  bool whole;               /* the verdict */
} kinds[WHOLE_KINDS] = {[WHOLE_SPANS] = {.whole = true}};

void whole_forget_all(void) {
  memset(kinds, 0, sizeof kinds);
  kinds[WHOLE_SPANS].whole = true;
}

/* Where a sample lies, and what could be written of it so far: slices that were never handed out are not asked for. */
static char *place_of(const struct superslab *superslab, size_t *bytes) {
  if (superslab->huge_units == 0) {
    uint32_t untouched = superslab->free_mask & ~superslab->dirty_mask;
    *bytes = (SLICES_PER_UNIT - (size_t)__builtin_popcount(untouched)) << SLICE_SHIFT;
    return superslab->base;
  }
  size_t at = whole_sample_unit(superslab->huge_units) << UNIT_SHIFT;
  size_t behind = superslab->huge_usable > at ? superslab->huge_usable - at : 0;
  *bytes = behind < UNIT_BYTES ? behind : UNIT_BYTES;
  return superslab->base + at;
}

static bool is_sample(const struct superslab *superslab) {
  return atomic_load_explicit(&superslab->sample, memory_order_relaxed);
}

static enum whole_kind kind_of(const struct superslab *superslab) {
  return superslab->huge_units != 0 ? (enum whole_kind)superslab->huge_units : WHOLE_SPANS;
}

void whole_forget(struct superslab *superslab) {
  if (!is_sample(superslab)) return;
  atomic_store_explicit(&superslab->sample, false, memory_order_relaxed);
  struct kind *kind = &kinds[kind_of(superslab)];
  if (kind->sample != superslab) return; /* since before a fork: see whole_forget_all */
  kind->sample = NULL;
  kind->looks = 0;
}

static void decide(struct kind *kind, bool whole) {
  bool confirmed = kind->lasts != 0 && kind->whole == whole;
  kind->lasts = !confirmed                     ? LASTS_LEAST
                : kind->lasts < LASTS_MOST / 2 ? (uint16_t)(kind->lasts * 2)
                                               : LASTS_MOST;
  kind->left = kind->lasts;
  kind->whole = whole;
  whole_forget(kind->sample);
  /* Huge blocks of another length, of which nothing is known yet, are likely to be used in the same way. */
  for (int i = WHOLE_SPANS + 1; i < WHOLE_KINDS && kind != &kinds[WHOLE_SPANS]; i++) {
    if (kinds[i].lasts != 0) continue;
    kinds[i].lasts = LASTS_LEAST / 2; /* to be confirmed by a sample of its own */
    kinds[i].left = LASTS_LEAST;
    kinds[i].whole = whole;
  }
}

/* Looks at the sample; the lock is let go meanwhile, and whoever frees the sample or decides by it in between is
 * heeded. What is mapped no more has nothing in memory. Where the system does not tell, what is expected stays so. */
static void look(struct kind *kind, bool last) {
  struct superslab *sample = kind->sample;
  size_t bytes, now;
  char *place = place_of(sample, &bytes);
  if (bytes < UNIT_BYTES / 2) { /* too little to decide by */
    if (++kind->looks == LOOKS_MOST) whole_forget(sample);
    return;
  }
  lock_release(&superslab_lock);
  size_t resident;
  bool told = os_resident_part(place, UNIT_BYTES, &resident);
  lock_acquire(&superslab_lock);
  if (kind->sample != sample || place_of(sample, &now) != place) return;
  bool whole = told ? resident >= bytes / 4 * 3 : kind->whole;
  if (whole || last || !told || ++kind->looks == LOOKS_MOST) decide(kind, whole);
}

static void offer(struct kind *kind, struct superslab *superslab) {
  if (superslab == NULL || kind->sample != NULL || kind->left > 0) return;
  kind->sample = superslab;
  atomic_store_explicit(&superslab->sample, true, memory_order_relaxed);
}

enum whole_answer whole_expected(enum whole_kind of, struct superslab *superslab) {
  struct kind *kind = &kinds[of];
  lock_acquire(&superslab_lock);
  if (kind->left == 0 && kind->sample != NULL) look(kind, false);
  offer(kind, superslab);
  if (kind->left > 0) kind->left--;
  enum whole_answer answer = kind->whole ? WHOLE_YES : WHOLE_NO;
  if (superslab != NULL && kind->sample == superslab)
    answer = kind->whole || kind->lasts == 0 ? WHOLE_BUT_SAMPLE : WHOLE_NO;
  lock_release(&superslab_lock);
  return answer;
}

void whole_offer(enum whole_kind of, struct superslab *superslab) {
  lock_acquire(&superslab_lock);
  offer(&kinds[of], superslab);
  lock_release(&superslab_lock);
}

void whole_last_look(struct superslab *superslab) {
  if (!is_sample(superslab)) return; /* nobody else makes it one */
  lock_acquire(&superslab_lock);
  struct kind *kind = &kinds[kind_of(superslab)];
  if (kind->sample == superslab) look(kind, true);
  whole_forget(superslab);
  lock_release(&superslab_lock);
}
