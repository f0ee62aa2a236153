#include "bad_pointer.h"

#include <new>

int main() {
  void *p = opaque(::operator new(BLOCK_SIZE));
  ::operator delete(opaque(p));
  announce("free", opaque(p), DOUBLE_FREE_OF_TIER);
  ::operator delete(opaque(p));
  return 0;
}
