// boxed.cpp - a server with a planted leak, and other ends, for tests of black boxes (HAKMEM_BLACKBOX).
//
// Usage: boxed leak MIB | threads MIB | rest MIB | refused | message | fork MIB | resting MIB
// "leak" leaks as many MiB; "threads" in four threads; "rest" then waits until its standard input ends; "refused" allocates under RLIMIT_AS until
// it gets no more; "message" frees what is no block; "fork" leaks, and so does its child, a third more.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

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

__attribute__((noinline)) int refused() {
  struct rlimit limit = {std::size_t{400} << 20, RLIM_INFINITY};
  if (setrlimit(RLIMIT_AS, &limit) != 0) return 3;
  std::vector<void *> blocks(100000);
  std::size_t count = 0;
  while (count < blocks.size() && (blocks[count] = std::malloc(50000)) != nullptr)
    std::memset(blocks[count++], 1, 50000);
  std::puts("refused");
  return count < blocks.size() ? 0 : 3;
}

} // namespace

int main(int argc, char **argv) {
  const char *how = argc > 1 ? argv[1] : "";
  std::size_t mib = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 0;
  if (std::strcmp(how, "refused") == 0) return refused();
  if (std::strcmp(how, "threads") == 0) {
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++) threads.emplace_back(serve, mib / 4);
    for (std::thread &thread : threads) thread.join();
    return 0;
  }
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
