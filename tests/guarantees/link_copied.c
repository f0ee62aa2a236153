/* The first word of one free block is copied over that of another: needs no knowledge of what is in it. */
#include "guarantee.h"

void run(void) {
  void *last = take(tier.full), *second = take(tier.full), *first = take(tier.full);
  free(last);
  free(second);
  free(first);
  announce(NULL, second);
  access_begins();
  if (!twin) memcpy(opaque(second), opaque(first), sizeof(void *));
  access_ends();
  crowd_take_untouched(&crowd_of_others, tier.full, tier.many);
  if (crowd_overlaps(&crowd_of_others)) harm(HANDED_OUT_TWICE);
  opaque(comes_back(second, tier.full) ? second : first);
  survived();
}
