/* A block is freed by the thread that took it, and again by another. */
#include "guarantee.h"

static void *free_again(void *block) {
  free_badly(block);
  crowd_take_untouched(&crowd_of_others, tier.size, tier.many);
  return NULL;
}

void run(void) {
  void *block = take(tier.size);
  free(block);
  in_a_thread(free_again, opaque(block));
  crowd_take_untouched(&crowd, tier.size, tier.many);
  for (unsigned i = 0; i < crowd.count; i++)
    if (crowd_touches(&crowd_of_others, crowd.block[i], crowd.size)) harm(HANDED_OUT_TWICE);
  if (crowd_overlaps(&crowd) || crowd_overlaps(&crowd_of_others)) harm(HANDED_OUT_TWICE);
  survived();
}
