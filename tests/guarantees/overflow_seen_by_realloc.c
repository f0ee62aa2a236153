/* One byte is written behind what was asked for, and the block is then resized. */
#include "guarantee.h"

void run(void) {
  unsigned char *block = take(tier.size);
  announce("realloc", block);
  access_begins();
  if (!twin) change_byte(block + tier.size);
  access_ends();
  opaque(realloc(opaque(block), 3 * tier.size));
  survived();
}
