/* A block that is freed is handed out again by one of the next 64 requests of its size. */
#include "guarantee.h"

void run(void) {
  unsigned char *block = take(tier.full), *keeper = take(tier.full);
  free(block);
  crowd_take(&crowd, tier.full, tier.many < 64 ? tier.many : 64);
  if (crowd_touches(&crowd, twin ? keeper : block, tier.full))
    harm("a freed block is handed out at once");
  survived();
}
