/* figures.h - statistics of SuperSlabs. */
#ifndef HAK_FIGURES_H
#define HAK_FIGURES_H

#include "superslab/superslab.h"

struct superslab_stats {
  /* All of one moment: memory counts as mapped before it is in one of the others, and is in none when it is unmapped. So
   * bytes_mapped >= live units + huge_bytes, and live units >= slab_bytes, whatever other threads do. */
  uint64_t live, peak, huge_live, huge_bytes, slab_bytes, bytes_mapped;
  uint64_t dirty_bytes;    /* free slices that keep their pages */
  uint64_t live_of[NODES]; /* the same as `live`, by node */
  /* Of each SuperSlab's own moment: */
  uint64_t large_bytes, cached_bytes; /* Large blocks in use; freed ones that keep their pages */
  /* bytes of blocks: ever made; of these, free in their slabs */
  uint64_t block_bytes_carved, block_bytes_free;
  uint64_t hole_bytes;        /* pages given back inside slabs, where blocks are free */
  uint64_t decommitted_bytes; /* freed Large blocks whose pages were given back: in no slab */
};
/** `deep`: also walks every SuperSlab for the last six figures, a few in one hold of the lock. False: the caller has interrupted the holder
 * of the lock, and all figures are 0. */
bool superslab_stats_get(struct superslab_stats *stats, bool deep);
/** The same for signal handlers, which may have interrupted the holder of the lock: not waiting for it long. False: it was not
 * to be had, and all figures are 0. */
bool superslab_stats_try(struct superslab_stats *stats, bool deep);

#endif
