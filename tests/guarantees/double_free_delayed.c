/* A block is freed twice, and others of its size before, between: it is at no end of a list. */
#include "guarantee.h"

void run(void) {
  enum { OTHERS = 30 };
  void *others[OTHERS];
  void *block = take(tier.size);
  for (int i = 0; i < OTHERS; i++) others[i] = take(tier.size);
  for (int i = 0; i < OTHERS / 2; i++) free(others[i]);
  free(block);
  for (int i = OTHERS / 2; i < OTHERS; i++) free(others[i]);
  free_badly(block);
  end_if_all_differ(tier.size);
}
