/* An overflow of a small block ends at a guard page before it has written to more than one slab, which has 64 KiB, or 512 for the
 * largest blocks. */
#include "guarantee.h"

void run(void) {
  const size_t slab = (tier.full <= 8192 ? (size_t)64 : (size_t)512) << 10;
  const size_t reach = 3 * slab, bytes = (size_t)4 << 20;
  crowd_take(&crowd, tier.full,
             (unsigned)(bytes / tier.full < CROWD_MAX ? bytes / tier.full : CROWD_MAX));
  unsigned lowest = 0;
  for (unsigned i = 0; i < crowd.count; i++)
    if (crowd.block[i] < crowd.block[lowest]) lowest = i;
  unsigned char *block = crowd.block[lowest];
  if (twin) write_upwards(block, block + tier.full);
  else write_upwards(block + tier.full, block + reach);
  for (unsigned i = 0; i < crowd.count; i++)
    if (crowd.block[i] - block >= (ptrdiff_t)(2 * slab) && !crowd_is_intact(&crowd, i))
      harm(OVERWRITTEN);
  survived();
}
