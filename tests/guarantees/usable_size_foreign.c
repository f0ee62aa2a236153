/* The size of a local variable is asked for, as if it were a block. */
#include "guarantee.h"

void run(void) {
  unsigned char target[512] __attribute__((aligned(16))) = {0};
  void *start = twin ? take(tier.size) : opaque(target) + 64;
  announce("malloc_usable_size", start);
  opaque((void *)(uintptr_t)malloc_usable_size(opaque(start)));
  survived();
}
