// own_new.cpp - a program that brings its own operator new links with libhakmem.a, and keeps it.
#include "check.h"

#include <memory>
#include <new>

static int calls;

void *operator new(std::size_t size) {
  ++calls;
  void *block = std::malloc(size);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}

void operator delete(void *block) noexcept { std::free(block); }
void operator delete(void *block, std::size_t) noexcept { std::free(block); }

int main() {
  std::unique_ptr<int> one(new int(7));
  CHECK(calls > 0 && hak_owns(one.get()));
  return 0;
}
