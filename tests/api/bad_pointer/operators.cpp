/* The same by operator delete. */
#include "bad_pointer.h"

#include <new>

void case_delete_stack() {
  alignas(16) char on_stack[64];
  announce("free", opaque(on_stack), FOREIGN);
  ::operator delete(opaque(on_stack));
}

void case_delete_sized_stack() {
  alignas(64) char on_stack[64];
  announce("free", opaque(on_stack), FOREIGN);
  ::operator delete[](opaque(on_stack), sizeof on_stack, std::align_val_t(64));
}

void case_double_delete() {
  void *p = opaque(::operator new(block_size));
  ::operator delete(opaque(p));
  announce("free", opaque(p), double_free_of_tier);
  ::operator delete(opaque(p));
}

/* With a third of the size of the block, which has `into` bytes. */
void case_delete_third() {
  void *p = opaque(::operator new(into));
  announce("free", p, WRONG_SIZE);
  ::operator delete(opaque(p), into / 3);
}
