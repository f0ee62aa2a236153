/* totals.h - figures gathered from all rooms, for statistics under every name. */
#ifndef HAK_TOTALS_H
#define HAK_TOTALS_H

#include "superslab/superslab.h"

struct totals {
  struct superslab_stats superslab;
  struct unit_stats unit;
  uint64_t heaps_active, heaps_parked;
  uint64_t metadata_bytes;
  /* with `deep` only, bytes: */
  uint64_t in_use; /* blocks handed out: small (bins taken off), Large and Huge */
  uint64_t
      in_bins; /* free blocks that threads keep: in bins, or sent to a heap and not yet looked at */
};

/** Fills `*totals` without stopping anybody: sums may be a moment apart. */
void totals_get(struct totals *totals, bool deep);

#endif
