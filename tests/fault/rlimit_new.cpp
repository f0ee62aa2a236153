// operator new under RLIMIT_AS: the new_handler is called and what it frees is used, bad_alloc can
// be caught and gone on from, nothrow new gives null, a container keeps its contents.
//
// usage: rlimit_new <MB above what is in use>
#include "kit.h"

#include <cstdio>
#include <memory>
#include <new>
#include <numeric>
#include <sys/resource.h>
#include <utility>
#include <vector>

namespace {

char *reserve;
unsigned handler_calls;

void give_reserve_up() {
  ++handler_calls;
  if (!reserve) {
    std::set_new_handler(nullptr);
    return;
  }
  delete[] reserve;
  reserve = nullptr;
}

struct Chain {
  Chain *next;
  char rest[1];
};

// Allocates by operator new until it throws; returns how many times it did not.
std::size_t exhaust(std::size_t size) {
  Chain *first = nullptr;
  std::size_t count = 0;
  try {
    for (;; ++count) {
      auto *link = static_cast<Chain *>(::operator new(size));
      link->next = first;
      first = link;
    }
  } catch (const std::bad_alloc &) {
  }
  CHECK(::operator new(8 * size + KIT_MB, std::nothrow) == nullptr, "nothrow new in exhaustion");
  CHECK(::operator new(8 * size + KIT_MB, std::align_val_t(256), std::nothrow) == nullptr,
        "aligned nothrow new in exhaustion");
  bool thrown = false;
  try {
    ::operator delete(::operator new(8 * size + KIT_MB, std::align_val_t(4096)),
                      std::align_val_t(4096));
  } catch (const std::bad_alloc &) {
    thrown = true;
  }
  CHECK(thrown, "aligned new in exhaustion did not throw");
  while (first) ::operator delete(std::exchange(first, first->next));
  return count;
}

} // namespace

int main(int argc, char **argv) {
  kit_start();
  std::size_t room = (argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 200) * KIT_MB;
  rlimit limit{};
  CHECK(getrlimit(RLIMIT_AS, &limit) == 0, "getrlimit");
  limit.rlim_cur = kit_address_space() + room;
  CHECK(setrlimit(RLIMIT_AS, &limit) == 0, "setrlimit");

  for (std::size_t size : {200ul, 3000ul, 40000ul, 500000ul, 5000000ul}) {
    std::size_t first = exhaust(size);
    std::size_t second = exhaust(size);
    std::printf("%zu B: %zu blocks until bad_alloc, then %zu\n", size, first, second);
    CHECK(first * size >= room / 2, "exhausted too early");
    CHECK(second >= first - first / 10, "less can be had than the first time");
  }

  reserve = new char[room / 2];
  std::set_new_handler(give_reserve_up);
  std::size_t count = exhaust(5000000);
  std::printf("with a reserve of %zu MB in the new_handler: %zu blocks, %u calls\n",
              room / 2 / KIT_MB, count, handler_calls);
  CHECK(handler_calls >= 2, "the new_handler was not called until it gave up");
  CHECK(count * 5000000 >= room / 2, "what the new_handler freed was not used");

  std::vector<unsigned> numbers(room / 16 / sizeof(unsigned));
  std::iota(numbers.begin(), numbers.end(), 0u);
  bool thrown = false;
  try {
    numbers.resize(2 * room / sizeof(unsigned));
  } catch (const std::bad_alloc &) {
    thrown = true;
  }
  CHECK(thrown && numbers.size() == room / 16 / sizeof(unsigned), "the vector grew past the limit");
  for (unsigned i = 0; i < numbers.size(); ++i)
    CHECK(numbers[i] == i, "the vector lost its contents");
  numbers.clear();
  numbers.shrink_to_fit();
  auto ok = std::make_unique<char[]>(room / 4);
  CHECK(ok, "no memory after all was freed");
  return 0;
}
