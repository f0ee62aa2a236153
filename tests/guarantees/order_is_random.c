/* Where the next block lies is guessed: as far behind the last one as that lay behind the one before. */
#include "guarantee.h"

void run(void) {
  crowd_take(&crowd, tier.full, tier.many);
  unsigned right = 0;
  for (unsigned i = 2; i < crowd.count; i++) {
    uintptr_t last = (uintptr_t)crowd.block[i - 1], before = (uintptr_t)crowd.block[i - 2];
    if ((uintptr_t)crowd.block[i] == last + (last - before)) right++;
  }
  /* By chance few are right: a slab has dozens of blocks to choose from. */
  if (!twin && 4 * right > crowd.count) harm("the next address is guessed");
  survived();
}
