/* The link of a free block is made to lead to a local variable. */
#include "written_after.h"

void run(void) {
  unsigned char target[512] __attribute__((aligned(16))) = {0};
  write_link((uintptr_t)opaque(target), sizeof(void *), HANDED_OUT_TARGET);
}
