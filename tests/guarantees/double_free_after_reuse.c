/* A block is freed, handed out to a second owner, and freed again by the first: it looks like a right free. */
#include "guarantee.h"

void run(void) {
  void *block = take(tier.size);
  free(block);
  unsigned char *of_second_owner = take(tier.size);
  free_badly(block);
  end_if_untouched(of_second_owner, tier.size, HANDED_OUT_TWICE);
}
