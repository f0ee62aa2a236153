// The program of docs/c-cpp.md. Without arguments a job whose result is printed: words are counted in a map, and made anew.
// With a kind and a number it holds so many MiB: `blocks` from new, `mapped` from mmap; prints "ready PID", waits for its
// input to end.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace {

constexpr size_t mib = 1 << 20;

void job() {
  std::unordered_map<std::string, std::vector<std::string>> words;
  unsigned state = 1;
  size_t letters = 0;
  for (int i = 0; i < 1500000; i++) {
    state = state * 1103515245u + 12345u;
    std::string word = "word-" + std::to_string((state >> 16) % 5000) + "-of-the-text";
    std::vector<std::string> &seen = words[word];
    if (seen.size() == 20) seen.clear();
    seen.push_back(word + std::string(i % 60, 'x'));
    letters += seen.back().size();
  }
  std::printf("job %zu words %zu letters\n", words.size(), letters);
}

void hold(const std::string &kind, size_t bytes) {
  constexpr size_t size = 64 * 1024;
  std::vector<std::unique_ptr<char[]>> blocks;
  void *mapping = MAP_FAILED;
  if (kind == "blocks") {
    for (size_t done = 0; done < bytes; done += size) {
      blocks.emplace_back(new char[size]);
      std::memset(blocks.back().get(), 1, size);
    }
  } else if (bytes > 0) {
    mapping = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED) std::abort();
    std::memset(mapping, 1, bytes);
  }
  std::printf("ready %d\n", static_cast<int>(getpid()));
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
}

} // namespace

int main(int argc, char **argv) {
  if (argc == 3) hold(argv[1], std::strtoul(argv[2], nullptr, 10) * mib);
  else job();
}
