/* INTO: how far into the block. */
#include "bad_pointer.h"

int main(void) {
  char *p = take(BLOCK_SIZE);
  free_badly(p + (INTO), INTERIOR);
  return 0;
}
