#include "bad_pointer.h"

#include <new>

int main() {
  alignas(64) char on_stack[64];
  announce("free", opaque(on_stack), FOREIGN);
  if (on_stack[0] != 77)
    ::operator delete[](opaque(on_stack), sizeof on_stack, std::align_val_t(64));
  return 0;
}
