/* A freed block is read when somebody else has been given blocks of its size: are their secrets in it? */
#include "guarantee.h"

void run(void) {
  unsigned char *block = take(tier.full), *keeper = take(tier.full);
  free(block);
  crowd_take(&crowd, tier.full, tier.many);
  for (unsigned i = 0; i < crowd.count; i++) fill_with_word(crowd.block[i], tier.full, SECRET);
  unsigned char *read = twin ? keeper : block;
  announce(NULL, block);
  access_begins();
  bool found = holds_word(opaque(read), tier.full, SECRET);
  access_ends();
  if (found) harm(SECRET_READ);
  survived();
}
