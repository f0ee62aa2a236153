/* A pointer into a block is resized. */
#include "guarantee.h"

void run(void) {
  unsigned char *block = take(tier.size), *start = twin ? block : block + 16;
  announce("realloc", start);
  unsigned char *grown = opaque(realloc(opaque(start), 2 * tier.size));
  crowd_take_untouched(&crowd, tier.size, tier.many);
  bool touched = !twin && crowd_touches(&crowd, block, tier.size);
  if (touched || crowd_touches(&crowd, grown, 2 * tier.size)) harm(HANDED_OUT_TWICE);
  survived();
}
