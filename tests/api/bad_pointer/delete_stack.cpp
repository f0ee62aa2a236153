#include "bad_pointer.h"

#include <new>

int main() {
  alignas(16) char on_stack[64];
  announce("free", opaque(on_stack), FOREIGN);
  ::operator delete(opaque(on_stack));
  return 0;
}
