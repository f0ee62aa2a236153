// replace.cpp - a C++ program linked with hakmem gets every operator new from it.
#include "check.h"

#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

struct alignas(128) Wide {
  char bytes[128];
};

int main() {
  std::unique_ptr<int> one(new int(7));
  CHECK(hak_owns(one.get()) && *one == 7);

  std::vector<std::string> words(1000, "a string too long for the small-string buffer");
  CHECK(hak_owns(words.data()) && hak_owns(words[999].data()));

  std::unique_ptr<Wide> wide(new Wide());
  CHECK(hak_owns(wide.get()) && reinterpret_cast<std::uintptr_t>(wide.get()) % 128 == 0);

  void *quiet = ::operator new(32, std::nothrow);
  CHECK(hak_owns(quiet));
  ::operator delete(quiet, std::nothrow);

  bool threw = false;
  try {
    // volatile: the compiler must not know that this cannot succeed
    volatile std::size_t much = static_cast<std::size_t>(-1) / 2;
    ::operator delete(::operator new(much));
  } catch (const std::bad_alloc &) {
    threw = true;
  }
  CHECK(threw);

  bool in_thread = false;
  std::thread worker(
      [&] { in_thread = hak_owns(std::make_unique<std::string>(100, 'x')->data()); });
  worker.join();
  CHECK(in_thread);

  std::printf("hakmem %s %s\n", hak_version(), hak_variant());
  return 0;
}
