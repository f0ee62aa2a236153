// A C++ program with threads, to run on a preloaded allocator. Prints the library that serves operator new, then
// a sum that depends on what the containers hold.
#include <dlfcn.h>

#include <cstdio>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace {

struct alignas(128) Aligned {
  unsigned long value;
};

std::mutex lock;
std::vector<std::unique_ptr<std::string>> handed_over;
unsigned long total = 0;

void work(unsigned long seed) {
  std::map<std::string, std::vector<unsigned long>> lists;
  std::list<std::unique_ptr<Aligned>> aligned;
  unsigned long sum = 0;
  for (unsigned long i = 0; i < 20000; i++) {
    lists[std::to_string(i * seed % 997)].push_back(i);
    if (i % 10 == 0) {
      aligned.push_back(std::make_unique<Aligned>(Aligned{i}));
      if (reinterpret_cast<unsigned long>(aligned.back().get()) % alignof(Aligned) != 0)
        std::abort();
    }
    if (i % 100 == 0) {
      // Freed by whichever thread comes next.
      std::lock_guard<std::mutex> guard(lock);
      for (auto &text : handed_over) sum += text->size();
      handed_over.clear();
      handed_over.push_back(std::make_unique<std::string>(i, 'x'));
      sum -= handed_over.back()->size();
    }
  }
  for (auto &[name, values] : lists) sum += name.size() * values.size();
  for (auto &block : aligned) sum += block->value;
  std::lock_guard<std::mutex> guard(lock);
  total += sum;
}

} // namespace

int main() {
  void *(*allocate)(std::size_t) = operator new;
  Dl_info where;
  if (dladdr(reinterpret_cast<void *>(allocate), &where) == 0) return 1;
  std::printf("operator new: %s\n", where.dli_fname);
  for (int round = 0; round < 3; round++) {
    std::vector<std::thread> threads;
    for (unsigned long seed = 1; seed <= 4; seed++) threads.emplace_back(work, seed);
    for (auto &thread : threads) thread.join();
  }
  for (auto &text : handed_over) total += text->size();
  std::printf("%lu\n", total);
}
