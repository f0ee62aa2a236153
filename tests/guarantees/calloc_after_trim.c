/* Blocks are written to after they were freed and their pages went back to the system; calloc has to give zeros all the same. Every 16th
 * block stays, and the memory round it. */
#include "guarantee.h"

enum { KEPT = 16 };

void run(void) {
  crowd_take(&crowd, tier.full, tier.many);
  for (unsigned i = 0; i < crowd.count; i++)
    if (i % KEPT != 0) free(crowd.block[i]);
  (void)malloc_trim(0);
  announce(NULL, NULL);
  access_begins(); /* it may have left the process */
  for (unsigned i = 0; i < crowd.count && !twin; i++)
    if (i % KEPT != 0) memset(opaque(crowd.block[i]) + 64, 'A', 32);
  access_ends();
  end_if_all_are_zero();
}
