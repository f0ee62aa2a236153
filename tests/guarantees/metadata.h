/* metadata.h - the allocator's own records lie beside the blocks in many allocators. All bytes between the outermost
 * of many blocks and the next multiple of 64 KiB are overwritten; then the allocator is used. */
#ifndef METADATA_H
#define METADATA_H

#include "guarantee.h"

enum { BLOCKS = 1000 };
#define SLICE ((uintptr_t)65536)

static inline void end_if_allocator_works(void) {
  crowd_free(&crowd);
  crowd_take(&crowd_of_others, tier.full, BLOCKS);
  if (crowd_overlaps(&crowd_of_others)) harm(HANDED_OUT_TWICE);
  for (unsigned i = 0; i < crowd_of_others.count; i++)
    if (!crowd_is_intact(&crowd_of_others, i)) harm(OVERWRITTEN);
  crowd_free(&crowd_of_others);
  survived();
}

#endif
