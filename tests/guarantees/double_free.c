/* A block is freed twice, at once. */
#include "guarantee.h"

void run(void) {
  void *block = take(tier.size);
  free(block);
  free_badly(block);
  end_if_all_differ(tier.size);
}
