/* memcpy reads from a block that was freed. */
#include "copied.h"

void run(void) {
  struct copied c = take_copied(tier.full);
  size_t bytes = tier.full - tier.full / 2;
  unsigned char *neighbour = take(tier.full); /* keeps what they lie in */
  memset(c.middle, 'A', bytes);
  memset(c.other, 'B', bytes);
  if (!twin) free(c.block);
  announce("memcpy", c.middle);
  memcpy(c.other, opaque(c.middle), bytes);
  opaque(neighbour);
  end_of_copy(c.other, bytes);
}
