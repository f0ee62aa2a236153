/* What lies behind the highest of many blocks is overwritten. */
#include "metadata.h"

void run(void) {
  crowd_take(&crowd, tier.full, BLOCKS);
  unsigned char *highest = crowd.block[0];
  for (unsigned i = 0; i < crowd.count; i++)
    if (crowd.block[i] > highest) highest = crowd.block[i];
  announce(NULL, NULL);
  unsigned char *end = highest + tier.full;
  if (!twin) write_upwards(end, (unsigned char *)(((uintptr_t)end + SLICE - 1) & ~(SLICE - 1)));
  end_if_allocator_works();
}
