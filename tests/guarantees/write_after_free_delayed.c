/* A freed block is written to when its thread has freed so much since that the block has left the thread's cache. */
#include "guarantee.h"

void run(void) {
  const size_t bytes = (size_t)32 << 20;
  size_t count = bytes / tier.full < CROWD_MAX ? bytes / tier.full : CROWD_MAX;
  unsigned char *keeper = take(tier.full), *block = take(tier.full);
  crowd_take(&crowd_of_others, tier.full, (unsigned)count);
  free(block);
  crowd_free(&crowd_of_others);
  announce(NULL, block);
  access_begins();
  if (!twin) memset(opaque(block) + tier.full / 16 * 8, 'A', 8);
  access_ends();
  /* Taken all at once, so that a list gives all that it has. */
  for (int round = 0; round < 3; round++) {
    crowd_take(&crowd_of_others, tier.full, (unsigned)count);
    crowd_free(&crowd_of_others);
  }
  opaque(comes_back(block, tier.full) ? block : keeper);
  survived();
}
