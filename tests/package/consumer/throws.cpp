// throws.cpp - a `new` that fails throws, also where the C++ runtime is a part of the program and nothing else in it throws.
#include <cstddef>
#include <new>

int main() {
  volatile std::size_t impossible = static_cast<std::size_t>(-1) / 4;
  try {
    void *volatile block = ::operator new(impossible);
    return block != nullptr ? 1 : 2;
  } catch (const std::bad_alloc &) {
    return 0;
  }
}
