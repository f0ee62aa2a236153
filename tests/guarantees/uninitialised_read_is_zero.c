/* A block is read that was not written to yet: does it hold what a former owner left? */
#include "guarantee.h"

void run(void) {
  crowd_take(&crowd, tier.full, tier.many);
  for (unsigned i = 0; i < crowd.count; i++) fill_with_word(crowd.block[i], tier.full, SECRET);
  crowd_free(&crowd);
  for (unsigned i = 0; i < tier.many; i++) {
    unsigned char *block = opaque(malloc(tier.full));
    if (block == NULL) give_up("malloc gave NULL");
    if (twin) memset(block, 0, tier.full);
    if (holds_word(opaque(block), tier.full, SECRET)) harm(SECRET_READ);
  }
  survived();
}
