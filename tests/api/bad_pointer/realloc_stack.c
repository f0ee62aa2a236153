#include "bad_pointer.h"

int main(void) {
  char on_stack[64] __attribute__((aligned(16)));
  announce("realloc", opaque(on_stack), FOREIGN);
  return opaque(realloc(opaque(on_stack), 100)) == NULL;
}
