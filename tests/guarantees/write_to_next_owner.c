/* A freed block is written to when somebody else has been given blocks of its size: are their data overwritten? */
#include "guarantee.h"

void run(void) {
  unsigned char *block = take(tier.full), *keeper = take(tier.full);
  free(block);
  crowd_take(&crowd, tier.full, tier.many);
  announce(NULL, block);
  access_begins();
  memset(opaque(twin ? keeper : block), 'A', 64);
  access_ends();
  for (unsigned i = 0; i < crowd.count; i++)
    if (!crowd_is_intact(&crowd, i)) harm(OVERWRITTEN);
  survived();
}
