/* free_slices.h - what the purger does with free slices (superslab/dirty.h), without it. */
#ifndef FREE_SLICES_H
#define FREE_SLICES_H

#include "superslab/dirty.h"
#include "superslab/superslab.h"
#include "unit_test.h"

/* Gives the pages of all free slices back; returns in how many SuperSlabs. */
static inline unsigned clean_free_slices(void) {
  struct dirty_cursor cursor = {0};
  struct dirty_slices set;
  size_t unexpired = 0;
  unsigned cleaned = 0;
  for (; superslab_take_dirty(&cursor, 0, &set, 1, &unexpired) == 1; cleaned++) {
    for (unsigned i = 0; i < SLICES_PER_UNIT; i++)
      if ((set.mask >> i & 1) != 0)
        assert_true(os_decommit(set.superslab->base + i * SLICE_BYTES, SLICE_BYTES));
    superslab_put_clean(set, true);
  }
  return cleaned;
}

#endif
