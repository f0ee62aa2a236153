// containers.cpp - the C++ library on the allocator: containers, threads, exceptions, a new_handler.
#include "override.h"

#include <atomic>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

namespace {

void fill_and_empty(int seed) {
  std::map<int, std::string> numbers;
  for (int i = 0; i < 2000; i++)
    numbers[(i * 7919 + seed) % 5000] += std::string(static_cast<size_t>(i % 100), 'x');
  CHECK(owns(&numbers.begin()->second));
  std::vector<int> grown;
  // NOLINTNEXTLINE(performance-inefficient-vector-operation): growing is what is tested
  for (int i = 0; i < 100000; i++) grown.push_back(i);
  CHECK(owns(grown.data()) && grown[99999] == 99999);
  std::vector<std::unique_ptr<std::vector<char>>> blocks;
  for (size_t size : sizes) blocks.push_back(std::make_unique<std::vector<char>>(size, 'y'));
  for (const auto &block : blocks) CHECK(owns(block->data()) && block->back() == 'y');
}

void exceptions() {
  for (int i = 0; i < 100; i++) {
    bool caught = false;
    try {
      throw std::string("thrown from a block of the library");
    } catch (const std::string &text) {
      caught = owns(text.data());
    }
    CHECK(caught);
  }
}

std::atomic<int> handler_calls;

void handler() {
  if (++handler_calls == 3) std::set_new_handler(nullptr);
}

void new_handler_and_bad_alloc() {
  std::set_new_handler(handler);
  bool caught = false;
  try {
    opaque(::operator new(PTRDIFF_MAX));
  } catch (const std::bad_alloc &) {
    caught = true;
  }
  CHECK(caught && handler_calls == 3);
  CHECK(opaque(::operator new(PTRDIFF_MAX, std::nothrow)) == nullptr);
  std::set_new_handler([] { throw std::bad_alloc(); });
  CHECK(opaque(::operator new(PTRDIFF_MAX, std::nothrow)) == nullptr);
  std::set_new_handler(nullptr);
}

void threads() {
  std::vector<std::thread> running;
  running.reserve(4);
  for (int i = 0; i < 4; i++) running.emplace_back(fill_and_empty, i);
  for (std::thread &thread : running) thread.join();
}

// Allocated before main, freed after it.
std::vector<std::string> before_main(100, std::string(1000, 'z'));

} // namespace

int main() {
  find_library();
  CHECK(owns(before_main.data()) && owns(before_main.back().data()));
  fill_and_empty(0);
  exceptions();
  new_handler_and_bad_alloc();
  threads();
  std::printf("containers: fine\n");
  return 0;
}
