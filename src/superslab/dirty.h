/* dirty.h - free slices that hold something are given back, and huge pages broken up for it. */
#ifndef HAK_DIRTY_H
#define HAK_DIRTY_H

#include "superslab/superslab.h"

/* Free slices of one SuperSlab that hold something, taken out of circulation for a moment. */
struct dirty_slices {
  struct superslab *superslab;
  uint32_t mask;
};

/** Takes up to `most` sets of dirty slices that have been free for `idle_scans` scans (0: all); call it until it
 * returns 0 for one look at everything. `*cursor` starts as {0}. `*unexpired` grows by the bytes that are left. */
struct dirty_cursor {
  unsigned list;
  bool started;
};
unsigned superslab_take_dirty(struct dirty_cursor *cursor, unsigned idle_scans,
                              struct dirty_slices *sets, unsigned most, size_t *unexpired);
/** Puts them back. `zeroed`: their pages are gone for good; otherwise the kernel may take them. */
void superslab_put_clean(struct dirty_slices set, bool zeroed);
/** May `slices` slices of the unit be given back, which would break up its huge page? Transparent ones go
 * only for enough slices at once, or with `all`; explicit ones as a whole or not. */
bool superslab_may_split(const struct superslab *superslab, unsigned slices, bool all);
/** Before a part of the unit is given back: its huge page is broken up for good. */
void superslab_split(struct superslab *superslab);
/** Is the unit a huge page, or to become one? */
HAK_INLINE bool superslab_is_whole(const struct superslab *superslab) {
  return superslab_has_huge_pages(superslab) &&
         !atomic_load_explicit(&superslab->split, memory_order_relaxed);
}
/** Bytes of free slices that hold something; relaxed: a hint. */
size_t superslab_dirty_bytes(void);

/** Pages of a slice of a slab that were given back. Written under the owner's lock only; a figure read in passing may be old,
 * never wild. */
unsigned slice_holes(const struct slab *slice);

#endif
