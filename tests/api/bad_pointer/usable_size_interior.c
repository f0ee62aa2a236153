#include "bad_pointer.h"

int main(void) {
  char *p = take(BLOCK_SIZE);
  announce("malloc_usable_size", p + (INTO), INTERIOR);
  return malloc_usable_size(opaque(p + (INTO))) == 12345;
}
