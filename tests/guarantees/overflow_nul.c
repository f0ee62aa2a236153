/* A zero is written behind a block that is full to its last byte: the end of a string that is one too long. */
#include "overflow.h"

void run(void) {
  struct pair pair = take_neighbours();
  unsigned char *block = crowd_of_others.block[pair.low];
  announce("free", block);
  if (!twin) opaque(block)[tier.full] = 0;
  end_beside_live(pair, pair.high);
}
