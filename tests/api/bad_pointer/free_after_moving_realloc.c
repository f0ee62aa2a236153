/* The old address of a block that realloc moved. */
#include "bad_pointer.h"

int main(void) {
  char *p = take(BLOCK_SIZE);
  char *old = opaque(p);
  size_t size = BLOCK_SIZE;
  do {
    size *= 3;
    p = realloc(p, size);
  } while (p == old && size < (size_t)1 << 30);
  if (p == old) return 2;
  free_badly(opaque(old), DOUBLE_FREE_OF_TIER);
  return 0;
}
