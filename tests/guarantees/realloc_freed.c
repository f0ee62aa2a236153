/* A block that was freed is resized. */
#include "guarantee.h"

void run(void) {
  void *block = take(tier.size), *other = take(tier.size);
  free(twin ? other : block);
  announce("realloc", block);
  void *grown = opaque(realloc(opaque(block), 2 * tier.size));
  crowd_take_untouched(&crowd, tier.size, tier.many);
  if (crowd_overlaps(&crowd) || crowd_touches(&crowd, grown, 2 * tier.size)) harm(HANDED_OUT_TWICE);
  survived();
}
