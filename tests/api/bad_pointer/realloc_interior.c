#include "bad_pointer.h"

int main(void) {
  char *p = take(BLOCK_SIZE);
  announce("realloc", p + (INTO), INTERIOR);
  return opaque(realloc(opaque(p + (INTO)), BLOCK_SIZE * 2)) == NULL;
}
