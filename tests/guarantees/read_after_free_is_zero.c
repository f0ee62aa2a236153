/* A freed block is read: what its owner left in it, is it still there? */
#include "guarantee.h"

void run(void) {
  unsigned char *block = take(tier.full), *keeper = take(tier.full);
  fill_with_word(block, tier.full, twin ? 0 : SECRET);
  free(block);
  /* A twin does not read freed memory. */
  unsigned char *read = twin ? keeper : block;
  announce(NULL, block);
  access_begins();
  bool found = holds_word(opaque(read), tier.full, SECRET);
  access_ends();
  if (found) harm(SECRET_READ);
  survived();
}
