/* An overflow reaches a neighbour that is free. */
#include "overflow.h"

void run(void) {
  struct pair pair = take_neighbours();
  unsigned char *next = crowd_of_others.block[pair.high];
  free(next);
  announce(NULL, NULL);
  overflow(pair);
  opaque(comes_back(next, tier.full) ? next : NULL);
  survived();
}
