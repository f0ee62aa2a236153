/* cxx_header.cpp - the headers for C++ under each standard, by each compiler, in use; see compile.py. */
#include <hakmem/memory.hpp>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <list>
#include <map>
#include <string>
#include <vector>

#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      std::printf("line %d: %s\n", __LINE__, #condition);                                          \
      return 1;                                                                                    \
    }                                                                                              \
  } while (false)

struct alignas(64) wide {
  char bytes[64];
};

static int containers() {
  std::vector<int, hakmem::allocator<int>> numbers;
  for (int i = 0; i < 10000; i++) numbers.push_back(i);
  CHECK(numbers[9999] == 9999 && hak_owns(numbers.data()) &&
        hak_heap_of(numbers.data()) == nullptr);
  std::map<int, int, std::less<int>, hakmem::allocator<std::pair<const int, int>>> squares;
  for (int i = 0; i < 100; i++) squares[i] = i * i;
  CHECK(squares[99] == 9801);
  std::vector<wide, hakmem::allocator<wide>> wides(3);
  CHECK(reinterpret_cast<std::uintptr_t>(wides.data()) % 64 == 0);
  return 0;
}

static int heaps() {
  hakmem::heap heap("cxx", 1 << 20);
  CHECK(std::strcmp(heap.name(), "cxx") == 0 && heap.stats().limit == 1 << 20);
  {
    std::vector<char, hakmem::heap_allocator<char>> text(heap.allocator<char>());
    text.assign(1000, 'x');
    CHECK(hak_heap_of(text.data()) == heap.get() && heap.stats().live_blocks == 1);
    auto copy = text;
    CHECK(hak_heap_of(copy.data()) == heap.get() && copy.get_allocator() == text.get_allocator());
    std::list<wide, hakmem::heap_allocator<wide>> wides(heap.allocator<wide>());
    wides.resize(10);
    CHECK(reinterpret_cast<std::uintptr_t>(&wides.front()) % 64 == 0);
    bool refused = false;
    try {
      text.reserve(2 << 20);
    } catch (const std::bad_alloc &) {
      refused = true;
    }
    CHECK(refused && heap.stats().refused >= 1);
  }
  CHECK(heap.stats().live_blocks == 0);
  hakmem::heap other(std::move(heap));
  CHECK(heap.get() == nullptr && other.get() != nullptr); // NOLINT(bugprone-use-after-move)
  heap = std::move(other);
  hakmem::heap third("third");
  CHECK(third.allocator<int>() != heap.allocator<int>());
  return 0;
}

static int errors() {
  bool thrown = false;
  volatile std::size_t many = static_cast<std::size_t>(-1) / 2;
  try {
    (void)hakmem::allocator<wide>().allocate(many);
  } catch (const std::bad_array_new_length &) {
    thrown = true;
  }
  CHECK(thrown);
  hakmem::unique_ptr<char[]> block(static_cast<char *>(hak_malloc(100)));
  CHECK(block != nullptr);
  return 0;
}

#ifdef HAKMEM_HAS_MEMORY_RESOURCE
static int resources() {
  hakmem::heap heap("pmr");
  hakmem::memory_resource resource(heap), same(heap), plain;
  CHECK(resource == same && !(resource == plain) && plain == hakmem::memory_resource());
  {
    std::pmr::vector<std::pmr::string> words(&resource);
    for (int i = 0; i < 100; i++)
      words.emplace_back("a word that is too long for the string itself");
    CHECK(hak_heap_of(words.data()) == heap.get() && hak_heap_of(words[50].data()) == heap.get());
    void *wide_block = resource.allocate(100, 256);
    CHECK(reinterpret_cast<std::uintptr_t>(wide_block) % 256 == 0);
    resource.deallocate(wide_block, 100, 256);
  }
  CHECK(heap.stats().live_blocks == 0);
  std::pmr::vector<int> numbers(1000, &plain);
  CHECK(hak_owns(numbers.data()));
  return 0;
}
#endif

int main() {
  int failed = containers() + heaps() + errors();
#ifdef HAKMEM_HAS_MEMORY_RESOURCE
  failed += resources();
#endif
  return failed;
}
