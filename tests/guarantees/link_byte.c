/* The lowest byte of a link is overwritten, as an overflow by one byte does. The block that it then leads to is one
 * that lives, where links are plain addresses. */
#include "guarantee.h"

void run(void) {
  crowd_take(&crowd_of_others, tier.full, tier.many);
  unsigned low = 0, high = 0;
  crowd_neighbours(&crowd_of_others, &low, &high);
  unsigned char *live = crowd_of_others.block[low], *next = crowd_of_others.block[high];
  void *block = take(tier.full);
  free(next);
  free(block);
  announce(NULL, block);
  access_begins();
  unsigned char byte = (unsigned char)(uintptr_t)live;
  if (!twin && *opaque(block) == byte) change_byte(block); /* by chance it is there already */
  else if (!twin) *opaque(block) = byte;
  access_ends();
  for (unsigned i = 0; i < tier.many; i++)
    if (opaque(malloc(tier.full)) == live) harm(HANDED_OUT_TWICE);
  opaque(comes_back(block, tier.full) ? block : live);
  survived();
}
