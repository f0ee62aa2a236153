/* The size behind a pointer into a block is asked for. */
#include "guarantee.h"

void run(void) {
  unsigned char *block = take(tier.size), *start = twin ? block : block + 16;
  announce("malloc_usable_size", start);
  opaque((void *)(uintptr_t)malloc_usable_size(opaque(start)));
  survived();
}
