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
  end_if_all_differ(tier.full);
}
