/* Freed blocks, whose pages have gone back to the system, are written to; calloc has to give zeros all the same. Every 16th block stays, so
 * that the memory round it does. */
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
  for (unsigned i = 0; i < tier.many; i++) {
    unsigned char *block = opaque(calloc(1, tier.full));
    if (block == NULL) give_up("calloc gave NULL");
    for (size_t at = 0; at < tier.full; at++)
      if (block[at] != 0) harm("calloc gives memory that is not zero");
  }
  survived();
}
