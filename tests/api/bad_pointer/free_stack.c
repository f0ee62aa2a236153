#include "bad_pointer.h"

int main(void) {
  char on_stack[64] __attribute__((aligned(16)));
  free_badly(opaque(on_stack), FOREIGN);
  return 0;
}
