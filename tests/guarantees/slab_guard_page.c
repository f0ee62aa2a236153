/* An overflow of a small block ends at a guard page before it reaches blocks that lie 192 KiB further. */
#include "guarantee.h"

void run(void) {
  const size_t reach = (size_t)192 << 10, bytes = (size_t)2 << 20;
  crowd_take(&crowd, tier.full,
             (unsigned)(bytes / tier.full < CROWD_MAX ? bytes / tier.full : CROWD_MAX));
  unsigned lowest = 0;
  for (unsigned i = 0; i < crowd.count; i++)
    if (crowd.block[i] < crowd.block[lowest]) lowest = i;
  unsigned char *block = crowd.block[lowest];
  if (twin) write_upwards(block, block + tier.full);
  else write_upwards(block + tier.full, block + reach);
  for (unsigned i = 0; i < crowd.count; i++)
    if (crowd.block[i] - block >= 131072 && !crowd_is_intact(&crowd, i)) harm(OVERWRITTEN);
  survived();
}
