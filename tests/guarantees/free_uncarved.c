/* An address in hakmem's own memory that was never handed out is freed: the end of the 2 MiB of a small block. */
#include "guarantee.h"

void run(void) {
  const uintptr_t unit = (uintptr_t)2 << 20;
  unsigned char *block = take(tier.size);
  unsigned char *target = (unsigned char *)(((uintptr_t)block & ~(unit - 1)) + unit - 4096);
  free_badly(target);
  end_if_untouched(target, 1, HANDED_OUT_TARGET);
}
