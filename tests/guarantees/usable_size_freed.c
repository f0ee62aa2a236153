/* The size of a block that was freed is asked for. */
#include "guarantee.h"

void run(void) {
  void *block = take(tier.size);
  if (!twin) free(block);
  announce("malloc_usable_size", block);
  opaque((void *)(uintptr_t)malloc_usable_size(opaque(block)));
  survived();
}
