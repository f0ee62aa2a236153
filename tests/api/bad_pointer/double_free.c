/* At once, with nothing in between. */
#include "bad_pointer.h"

int main(void) {
  void *p = take(BLOCK_SIZE);
  free(p);
  free_badly(opaque(p), DOUBLE_FREE_OF_TIER);
  return 0;
}
