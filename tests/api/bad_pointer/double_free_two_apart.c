/* The classic of corrupted lists: a, b, a. */
#include "bad_pointer.h"

int main(void) {
  void *a = take(BLOCK_SIZE), *b = take(BLOCK_SIZE);
  free(a);
  free(b);
  free_badly(opaque(a), DOUBLE_FREE_OF_TIER);
  return 0;
}
