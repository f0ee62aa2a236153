/* memcpy writes into a block that was freed. */
#include "copied.h"

void run(void) {
  struct copied c = take_copied(tier.full);
  size_t bytes = tier.full - tier.full / 2;
  unsigned char *neighbour = take(tier.full); /* keeps what they lie in */
  if (!twin) free(c.block);
  announce("memcpy", c.middle);
  memcpy(opaque(c.middle), c.other, bytes);
  opaque(neighbour);
  end_of_copy(c.middle, bytes);
}
