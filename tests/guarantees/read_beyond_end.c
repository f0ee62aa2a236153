/* More is read than the block has, up to a neighbour that holds a secret: as where a length comes from outside. */
#include "overflow.h"

void run(void) {
  struct pair pair = take_neighbours();
  unsigned char *block = crowd_of_others.block[pair.low], *next = crowd_of_others.block[pair.high];
  fill_with_word(next, 64, SECRET);
  const unsigned char *end = twin ? block + tier.full : next + 64;
  access_begins();
  bool found = holds_word(opaque(block), (size_t)(end - block), SECRET);
  access_ends();
  if (found) harm(SECRET_READ);
  survived();
}
