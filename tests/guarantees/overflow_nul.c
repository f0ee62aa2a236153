/* A zero is written behind the last byte that may be used: the end of a string that is one too long. */
#include "overflow.h"

void run(void) {
  struct pair pair = take_neighbours();
  unsigned char *block = crowd_of_others.block[pair.low];
  size_t usable = malloc_usable_size(block);
  announce("free", block);
  access_begins();
  if (!twin) opaque(block)[usable] = 0;
  access_ends();
  end_beside_live(pair, pair.high);
}
