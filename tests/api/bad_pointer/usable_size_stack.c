#include "bad_pointer.h"

int main(void) {
  char on_stack[64] __attribute__((aligned(16)));
  announce("malloc_usable_size", opaque(on_stack), FOREIGN);
  return malloc_usable_size(opaque(on_stack)) == 12345;
}
