/* Blocks are written to after they were freed; calloc has to give zeros all the same. The first two words, where links
 * may be, are left alone. */
#include "guarantee.h"

void run(void) {
  crowd_take(&crowd, tier.full, tier.many);
  crowd_free(&crowd);
  announce(NULL, NULL);
  /* Huge blocks may have left the process: then this ends by a fault. */
  access_begins();
  for (unsigned i = 0; i < crowd.count && !twin; i++) memset(opaque(crowd.block[i]) + 64, 'A', 32);
  access_ends();
  end_if_all_are_zero();
}
