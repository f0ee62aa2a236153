/* sums.h - what is known of all SuperSlabs together, for superslab.c, which keeps it, and statistics. */
#ifndef HAK_SUMS_H
#define HAK_SUMS_H

#include "superslab/superslab.h"

/* Under superslab_lock. */
struct superslab_sums {
  uint64_t live, peak;    /* SuperSlabs */
  uint64_t slices_in_use; /* handed out as spans */
  uint8_t era;            /* of the lists; superslab_fork_child */
};
extern struct superslab_sums superslab_sums;

/** Pages of a slice that were given back. Written under the owner's lock; a figure read in passing may be old, never wild. */
unsigned slice_holes(const struct slab *slice);

#endif
