/* A pointer into a block that lives is freed. */
#include "guarantee.h"

void run(void) {
  unsigned char *block = take(tier.size);
  free_badly(block + 16);
  end_if_untouched(block, tier.size, HANDED_OUT_TWICE);
}
