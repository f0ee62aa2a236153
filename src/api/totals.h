/* totals.h - figures gathered from all rooms, for statistics under every name. */
#ifndef HAK_TOTALS_H
#define HAK_TOTALS_H

#include "observe/counters.h"
#include "superslab/figures.h"
#include "superslab/unit.h"

struct totals {
  struct superslab_stats superslab;
  struct unit_stats unit;
  uint64_t heaps_active, heaps_parked;
  uint64_t metadata_bytes;
  /* with `deep` only, bytes: */
  uint64_t in_use; /* blocks handed out: small (bins taken off), Large and Huge */
  uint64_t
      in_bins; /* free blocks that threads keep: in bins, or sent to a heap and not yet looked at */
  uint64_t pinned; /* free blocks in slabs, whose pages stay because of live neighbours */
  uint64_t cached; /* empty memory kept for reuse: Large blocks, slices, the warm pool */
  uint64_t given;  /* pages given back inside slabs and Large blocks */
  uint64_t lost;   /* free blocks that this process does not know of, since it is a fork's child */
  /* The most that ever lived, by what was asked for, estimated by so many samples; with or without `deep`. 0: none was taken. */
  uint64_t peak, peak_samples, peak_ms; /* bytes; how long ago it was */
};

/** Fills `*totals` without stopping anybody: sums may be a moment apart, but none is below 0 or above what is mapped. False: the caller has
 * interrupted the holder of a lock, and what is under it is 0. */
bool totals_get(struct totals *totals, bool deep);
/** The same for signal handlers: not waiting for locks. False: what is under one is 0. */
bool totals_try(struct totals *totals, bool deep);

/* Of one size class, of all Large or of all Huge blocks (enum in observe/counters.h). */
struct class_totals {
  uint64_t alloc, free;  /* blocks handed out and taken back */
  uint64_t of[COUNTERS]; /* the same by the way they went; both are 0 unless option_counting() */
  uint64_t supply[SUPPLIES]; /* slabs, Large spans or Huge blocks */
  uint32_t size;             /* of a block, bytes; 0 for Large and Huge */
};

/** Of all heaps, those of ended threads too. */
void totals_of_class(unsigned counted_class, struct class_totals *totals);

#endif
