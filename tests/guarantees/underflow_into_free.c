/* Memory in front of a block is written to, and reaches a neighbour that is free. */
#include "overflow.h"

void run(void) {
  struct pair pair = take_neighbours();
  unsigned char *below = crowd_of_others.block[pair.low];
  free(below);
  announce(NULL, NULL);
  underflow(pair);
  opaque(comes_back(below, tier.full) ? below : NULL);
  survived();
}
