#include "bad_pointer.h"

int main(void) {
  void *p = NULL;
  if (posix_memalign(&p, 4096, BLOCK_SIZE) != 0) return 2;
  free(p);
  free_badly(opaque(p), DOUBLE_FREE_OF_TIER);
  return 0;
}
