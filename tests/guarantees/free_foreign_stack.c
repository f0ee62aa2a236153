/* The address of a local variable is freed. */
#include "guarantee.h"

void run(void) {
  unsigned char target[512] __attribute__((aligned(16))) = {0};
  free_badly(opaque(target) + 64);
  end_if_untouched(opaque(target), sizeof target, HANDED_OUT_TARGET);
}
