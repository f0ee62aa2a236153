/* What lies in front of the lowest of many blocks is overwritten. */
#include "metadata.h"

void run(void) {
  crowd_take(&crowd, tier.full, BLOCKS);
  unsigned char *lowest = crowd.block[0];
  for (unsigned i = 0; i < crowd.count; i++)
    if (crowd.block[i] < lowest) lowest = crowd.block[i];
  announce(NULL, NULL);
  if (!twin) write_downwards(lowest, (unsigned char *)((uintptr_t)lowest & ~(SLICE - 1)));
  end_if_allocator_works();
}
