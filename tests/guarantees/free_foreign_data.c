/* The address of a static variable is freed. */
#include "guarantee.h"

static unsigned char target[8192] __attribute__((aligned(4096)));

void run(void) {
  free_badly(opaque(target) + 4096);
  end_if_untouched(target, sizeof target, HANDED_OUT_TARGET);
}
