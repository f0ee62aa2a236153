// operators.cpp - every kind of operator new and delete, between two marks.
#include <new>

extern "C" {
#include "program.h"
}

int main() {
  auto aligned = std::align_val_t{64};
  volatile std::size_t far_too_much = (std::size_t)PTRDIFF_MAX + 1;
  mark();
  ::operator delete(named("plain", ::operator new(40)));
  ::operator delete[](named("array", ::operator new[](41)));
  ::operator delete(named("sized", ::operator new(42)), (std::size_t)42);
  ::operator delete[](named("array_sized", ::operator new[](43)), (std::size_t)43);
  ::operator delete(named("nothrow", ::operator new(44, std::nothrow)), std::nothrow);
  ::operator delete[](named("array_nothrow", ::operator new[](45, std::nothrow)), std::nothrow);
  ::operator delete(named("aligned", ::operator new(46, aligned)), aligned);
  ::operator delete[](named("array_aligned", ::operator new[](47, aligned)), aligned);
  ::operator delete(named("both", ::operator new(48, aligned)), (std::size_t)48, aligned);
  ::operator delete[](named("array_both", ::operator new[](49, aligned)), (std::size_t)49, aligned);
  ::operator delete(named("all", ::operator new(50, aligned, std::nothrow)), aligned, std::nothrow);
  ::operator delete(nullptr);
  if (::operator new(far_too_much, std::nothrow) != nullptr) return 1;
  mark();
  return 0;
}
