/* One byte is written behind what was asked for, in the part of the block that nobody asked for. */
#include "guarantee.h"

void run(void) {
  unsigned char *block = take(tier.size);
  announce("free", block);
  access_begins();
  if (!twin) change_byte(block + tier.size);
  access_ends();
  free(block);
  survived();
}
