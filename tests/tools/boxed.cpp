// boxed.cpp - a server with a planted leak, and other ends, for tests of black boxes (HAKMEM_BLACKBOX).
//
// Usage: boxed leak MIB | threads MIB | rest MIB | refused | grown | heap | impossible | message | fork MIB | few MIB
// "leak" leaks as many MiB; "threads" in four threads; "rest" then waits until its standard input ends; "refused" allocates under RLIMIT_AS until
// it gets no more, and some times more; "grown" grows a block until then, and "heap" takes blocks from a heap of its own; "impossible" asks for what is no want of
// memory: sizes beyond all, and more than a heap may have; "message" frees what is no block; "fork" leaks, and so does its child, a third more;
// "few" leaks without a descriptor to open anything.
#include <dlfcn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

namespace {

thread_local std::vector<char *> sessions;
int sink;

__attribute__((noinline)) void remember_session(std::size_t bytes) {
  char *session = new char[bytes];
  std::memset(session, 'x', bytes);
  sessions.push_back(session);
}

__attribute__((noinline)) void answer_request(std::size_t i) {
  char *answer = new char[900];
  std::memset(answer, 1, 900);
  sink += answer[i % 900];
  delete[] answer;
  remember_session(3000 + i % 7 * 100);
}

void serve(std::size_t mib) {
  std::size_t requests = mib * 320;
  for (std::size_t i = 0; i < requests; i++) answer_request(i);
}

bool limit_space() {
  struct rlimit limit = {std::size_t{400} << 20, RLIM_INFINITY};
  return setrlimit(RLIMIT_AS, &limit) == 0;
}

// Of the library that is preloaded.
template <class Function> Function *api(const char *name) {
  return reinterpret_cast<Function *>(dlsym(RTLD_DEFAULT, name));
}

__attribute__((noinline)) int grown() {
  if (!limit_space()) return 3;
  void *block = nullptr;
  for (std::size_t bytes = 1000; bytes < (std::size_t{1} << 30); bytes += bytes / 8) {
    void *larger = std::realloc(block, bytes);
    if (larger == nullptr) return 0;
    block = larger;
  }
  return 3;
}

__attribute__((noinline)) int from_heap() {
  auto *create = api<void *(const char *, std::size_t)>("hak_heap_create");
  auto *take = api<void *(void *, std::size_t)>("hak_heap_malloc");
  if (create == nullptr || take == nullptr || !limit_space()) return 3;
  void *heap = create("heap", 0);
  for (int i = 0; i < 100000; i++)
    if (take(heap, 50000) == nullptr) return 0;
  return 3;
}

__attribute__((noinline)) int impossible() {
  volatile std::size_t most = SIZE_MAX, half = SIZE_MAX / 2 + 1;
  auto *create = api<void *(const char *, std::size_t)>("hak_heap_create");
  auto *take = api<void *(void *, std::size_t)>("hak_heap_malloc");
  auto *resize = api<void *(void *, void *, std::size_t)>("hak_heap_realloc");
  if (create == nullptr || take == nullptr || resize == nullptr) return 3;
  void *heap = create("heap", 1 << 20), *block = std::malloc(100), *own = take(heap, 100), *any;
  void *const refused[] = {std::malloc(half),
                           std::malloc(most),
                           std::realloc(block, half),
                           std::calloc(half, 3),
                           std::aligned_alloc(4096, half),
                           take(heap, 2 << 20),
                           resize(heap, own, 2 << 20),
                           take(heap, half)};
  for (void *each : refused)
    if (each != nullptr) return 3;
  while ((any = take(heap, 100)) != nullptr) sink += any == own;
  return 0;
}

__attribute__((noinline)) int refused() {
  if (!limit_space()) return 3;
  std::vector<void *> blocks(100000);
  std::size_t count = 0;
  while (count < blocks.size() && (blocks[count] = std::malloc(50000)) != nullptr)
    std::memset(blocks[count++], 1, 50000);
  for (int i = 0; i < 20; i++) sink += std::malloc(50000) != nullptr;
  std::puts("refused");
  return count < blocks.size() ? 0 : 3;
}

} // namespace

int main(int argc, char **argv) {
  const char *how = argc > 1 ? argv[1] : "";
  std::size_t mib = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 0;
  if (std::strcmp(how, "refused") == 0) return refused();
  if (std::strcmp(how, "grown") == 0) return grown();
  if (std::strcmp(how, "heap") == 0) return from_heap();
  if (std::strcmp(how, "impossible") == 0) return impossible();
  if (std::strcmp(how, "threads") == 0) {
    std::vector<std::thread> threads;
    threads.reserve(4);
    for (int i = 0; i < 4; i++) threads.emplace_back(serve, mib / 4);
    for (std::thread &thread : threads) thread.join();
    return 0;
  }
  struct rlimit none = {3, 3};
  if (std::strcmp(how, "few") == 0 && setrlimit(RLIMIT_NOFILE, &none) != 0) return 3;
  serve(mib);
  int *volatile foreign = &sink; // which the compiler does not know
  if (std::strcmp(how, "message") == 0) std::free(foreign);
  if (std::strcmp(how, "fork") == 0) {
    pid_t child = fork();
    if (child == 0) {
      serve(mib / 3);
      _exit(0);
    }
    std::printf("%d\n", static_cast<int>(child));
    waitpid(child, nullptr, 0);
  }
  std::printf("served\n");
  std::fflush(stdout);
  if (std::strcmp(how, "rest") == 0) std::getchar();
  return 0;
}
