// operators.cpp - operator new and delete in a program without any C++ library: the operators are the
// allocator's own and need none.
#include "override.h"

#include <pthread.h>

// What <new> would declare.
namespace std {
enum class align_val_t : size_t {};
struct nothrow_t {};
static const nothrow_t nothrow = nothrow_t();
} // namespace std

void *operator new(size_t size, const std::nothrow_t &) noexcept;
void *operator new[](size_t size, const std::nothrow_t &) noexcept;

namespace {

struct alignas(256) Wide {
  unsigned char bytes[700];
};

struct Counted {
  static int alive;
  Counted() { alive++; }
  ~Counted() { alive--; }
  Counted(const Counted &) = delete;
  Counted &operator=(const Counted &) = delete;
  int number = 7;
};
int Counted::alive = 0;

void each_operator() {
  for (size_t size : sizes) {
    ::operator delete(taken(::operator new(size), size));
    ::operator delete(taken(::operator new(size), size), size);
    ::operator delete[](taken(::operator new[](size), size));
    ::operator delete[](taken(::operator new[](size), size), size);
    ::operator delete(taken(::operator new(size, std::nothrow), size));
    ::operator delete[](taken(::operator new[](size, std::nothrow), size));
    auto alignment = static_cast<std::align_val_t>(4096);
    void *aligned = taken(::operator new(size, alignment), size);
    CHECK(reinterpret_cast<uintptr_t>(aligned) % 4096 == 0);
    ::operator delete(aligned, alignment);
    aligned = taken(::operator new[](size, alignment), size);
    CHECK(reinterpret_cast<uintptr_t>(aligned) % 4096 == 0);
    ::operator delete[](aligned, size, alignment);
  }
}

void objects() {
  auto *wide = new Wide;
  CHECK(owns(opaque(wide)) && reinterpret_cast<uintptr_t>(wide) % 256 == 0);
  delete wide;
  auto *many = new Counted[1000];
  CHECK(owns(opaque(many)) && Counted::alive == 1000 && many[999].number == 7);
  delete[] many;
  CHECK(Counted::alive == 0);
}

// Nothing to call and nothing to throw: NULL.
void what_cannot_be_had() {
  CHECK(opaque(::operator new(PTRDIFF_MAX, std::nothrow)) == nullptr);
  CHECK(opaque(::operator new[](PTRDIFF_MAX, std::nothrow)) == nullptr);
}

void *in_thread(void *) {
  each_operator();
  return nullptr;
}

} // namespace

int main() {
  find_library();
  each_operator();
  objects();
  what_cannot_be_had();
  pthread_t threads[2];
  for (pthread_t &thread : threads)
    CHECK(pthread_create(&thread, nullptr, in_thread, nullptr) == 0);
  for (pthread_t thread : threads) CHECK(pthread_join(thread, nullptr) == 0);
  printf("operators: fine\n");
  return 0;
}
