// inlined.cpp - a program whose functions the compiler puts into each other, for tests of stacks. Each line that a test asks for ends
// with a comment that names it.
//
// Usage: inlined wait|abort. Prints "ready PID BLOCK CODE": a block that it holds, and where main begins. `wait` ends when its standard
// input does, `abort` by a signal.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>
#include <vector>

#define INLINED __attribute__((always_inline)) inline

namespace {

enum { BLOCKS = 4000, BYTES = 12000, TABLES = 1000, NUMBERS = 1000 };

char *volatile last;
std::vector<int> *volatile tables[TABLES];
volatile int sink;

struct Parser {
  INLINED void parse(std::size_t bytes, bool fails) {
    if (fails) std::abort();                                          // abort
    last = static_cast<char *>(std::memset(malloc(bytes), 1, bytes)); // parse
    sink = sink + 1;
  }
};

INLINED void handle(std::size_t bytes, bool fails) {
  Parser parser;
  parser.parse(bytes, fails); // handle
  sink = sink + 1;
}

} // namespace

INLINED void worker(int count, bool fails) {
  for (int i = 0; i < count; i++) handle(BYTES, fails); // worker
}

__attribute__((noinline)) void fill() {
  for (auto &table : tables) {
    auto *numbers = new std::vector<int>;
    numbers->reserve(NUMBERS); // fill
    table = numbers;
  }
  sink = sink + 1;
}

int main(int argc, char **argv) {
  worker(BLOCKS, false); // main
  fill();                // main-fill
  std::printf("ready %d %p %p\n", static_cast<int>(getpid()), static_cast<void *>(last),
              reinterpret_cast<void *>(main));
  std::fflush(stdout);
  if (argc > 1 && std::strcmp(argv[1], "abort") == 0) worker(1, true); // main-abort
  (void)std::getchar();
  _exit(0);
}
