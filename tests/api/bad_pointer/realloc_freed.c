#include "bad_pointer.h"

int main(void) {
  void *p = take(BLOCK_SIZE);
  free(p);
  announce("realloc", opaque(p), DOUBLE_FREE_OF_TIER);
  return opaque(realloc(opaque(p), BLOCK_SIZE * 2)) == NULL;
}
