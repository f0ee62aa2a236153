// replaced_new.cpp - a program that replaces operator new and delete of one object, as trackers and engines do: every other form has to
// call its own ([new.delete]). Each block carries a header, which a form that passes the program's by would take for a block.
//
// Usage: replaced_new
#include <cstdio>
#include <cstdlib>
#include <new>

// That it leaves the sized forms to the library is the point.
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wsized-deallocation"
#endif
// clang has these only where it is told to. NOLINTBEGIN(readability-redundant-declaration)
void operator delete(void *pointer, std::size_t size) noexcept;
void operator delete[](void *pointer, std::size_t size) noexcept;
void operator delete(void *pointer, std::size_t size, std::align_val_t alignment) noexcept;
void operator delete[](void *pointer, std::size_t size, std::align_val_t alignment) noexcept;
// NOLINTEND(readability-redundant-declaration)

namespace {
constexpr std::size_t HEADER = 64;
long news, deletes;
bool refuses;

void *allocate(std::size_t size, std::size_t alignment) {
  if (refuses) throw std::bad_alloc();
  ++news;
  auto *block = static_cast<char *>(
      std::aligned_alloc(alignment, (size + 2 * alignment - 1) / alignment * alignment));
  if (block == nullptr) throw std::bad_alloc();
  return block + alignment;
}

void release(void *pointer, std::size_t alignment) {
  if (pointer == nullptr) return;
  ++deletes;
  std::free(static_cast<char *>(pointer) - alignment);
}

void check(bool holds, const char *what) {
  if (holds) return;
  std::fprintf(stderr, "replaced_new: %s: %ld news, %ld deletes\n", what, news, deletes);
  std::exit(1);
}

void expect(long calls, const char *what) { check(news == calls && deletes == calls, what); }
} // namespace

void *operator new(std::size_t size) { return allocate(size, HEADER); }
void operator delete(void *pointer) noexcept { release(pointer, HEADER); }
void *operator new(std::size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<std::size_t>(alignment));
}
void operator delete(void *pointer, std::align_val_t alignment) noexcept {
  release(pointer, static_cast<std::size_t>(alignment));
}

int main() {
  const auto aligned = std::align_val_t{128};
  ::operator delete(::operator new(100));
  expect(1, "new");
  ::operator delete[](::operator new[](100));
  expect(2, "new[]");
  ::operator delete(::operator new(100, std::nothrow), std::nothrow);
  expect(3, "nothrow new");
  ::operator delete[](::operator new[](100, std::nothrow), std::nothrow);
  expect(4, "nothrow new[]");
  ::operator delete (::operator new(100), std::size_t{100});
  expect(5, "sized delete");
  ::operator delete[](::operator new[](100), std::size_t{100});
  expect(6, "sized delete[]");
  ::operator delete(::operator new(100, aligned), aligned);
  expect(7, "aligned new");
  ::operator delete[](::operator new[](100, aligned), aligned);
  expect(8, "aligned new[]");
  ::operator delete(::operator new(100, aligned, std::nothrow), aligned, std::nothrow);
  expect(9, "aligned nothrow new");
  ::operator delete[](::operator new[](100, aligned, std::nothrow), aligned, std::nothrow);
  expect(10, "aligned nothrow new[]");
  ::operator delete (::operator new(100, aligned), std::size_t{100}, aligned);
  expect(11, "sized aligned delete");
  ::operator delete[](::operator new[](100, aligned), std::size_t{100}, aligned);
  expect(12, "sized aligned delete[]");

  refuses = true;
  check(::operator new(1, std::nothrow) == nullptr, "nothrow new of a throwing new");
  check(::operator new[](1, std::nothrow) == nullptr, "nothrow new[] of a throwing new");
  check(::operator new(1, aligned, std::nothrow) == nullptr, "the same, aligned");
  check(::operator new[](1, aligned, std::nothrow) == nullptr, "the same, aligned, new[]");
  std::puts("every form called the program's");
  return 0;
}
