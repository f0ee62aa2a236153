// new_handler.cpp - what the operators do when memory has run out: the new_handler is called until it
// helps, gives up or throws; then bad_alloc, or null from the nothrow forms.
//
// Each case runs in a child process: a limit on the address space cannot be raised again by everyone.
#include "api_test.h"

#include <cerrno>
#include <new>
#include <vector>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

using std::align_val_t;
using std::nothrow;

constexpr size_t TOO_MUCH = SIZE_MAX / 4;

// Runs `body` in a child and gives its exit code back: 0 when every check held. The checks print what
// failed.
template <typename Body> int in_child(Body body) {
  pid_t child = fork();
  if (child == 0) {
    bool good = false;
    try {
      good = body();
    } catch (...) {
      fprintf(stderr, "an exception escaped\n");
    }
    _exit(good ? 0 : 1);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition);                      \
      return false;                                                                                \
    }                                                                                              \
  } while (0)

// Leaves `spare` bytes of address space.
bool limit_address_space(size_t spare) {
  rlimit limit;
  limit.rlim_cur = limit.rlim_max = address_space_used() + spare;
  return setrlimit(RLIMIT_AS, &limit) == 0;
}

// True when bad_alloc and nothing else came out of `allocate`.
template <typename Allocate> bool throws_bad_alloc(Allocate allocate) {
  try {
    opaque(allocate());
  } catch (const std::bad_alloc &) {
    return true;
  } catch (...) {
  }
  return false;
}

int handler_calls;
void *ballast;
std::vector<void *> small_ballast;

void give_up_at_the_third_call() {
  if (++handler_calls == 3) std::set_new_handler(nullptr);
}
void throw_bad_alloc() {
  handler_calls++;
  throw std::bad_alloc();
}
struct Exhausted : std::bad_alloc {};
void throw_own_kind() {
  handler_calls++;
  throw Exhausted();
}
void throw_something_else() {
  handler_calls++;
  throw 42;
}
void free_the_ballast() {
  handler_calls++;
  ::operator delete(ballast);
  ballast = nullptr;
  std::set_new_handler(throw_bad_alloc);
}
void free_the_small_ballast() {
  handler_calls++;
  for (void *p : small_ballast) ::operator delete(p);
  small_ballast.clear();
  std::set_new_handler(throw_bad_alloc);
}

TEST(NewHandler, ImpossibleSizesThrow) {
  if (hak_owns == nullptr)
    GTEST_SKIP() << "libstdc++ 12 rounds these sizes up to small ones for its aligned operators";
  for (size_t size : impossible_sizes) {
    size = opaque_size(size);
    EXPECT_TRUE(throws_bad_alloc([=] { return ::operator new(size); }));
    EXPECT_TRUE(throws_bad_alloc([=] { return ::operator new[](size); }));
    EXPECT_TRUE(throws_bad_alloc([=] { return ::operator new(size, align_val_t(64)); }));
    EXPECT_TRUE(throws_bad_alloc([=] { return ::operator new[](size, align_val_t(8192)); }));
  }
}

TEST(NewHandler, ImpossibleSizesGiveNullFromNothrow) {
  if (hak_owns == nullptr)
    GTEST_SKIP() << "libstdc++ 12 rounds these sizes up to small ones for its aligned operators";
  for (size_t size : impossible_sizes) {
    size = opaque_size(size);
    EXPECT_EQ(::operator new(size, nothrow), nullptr);
    EXPECT_EQ(::operator new[](size, nothrow), nullptr);
    EXPECT_EQ(::operator new(size, align_val_t(64), nothrow), nullptr);
    EXPECT_EQ(::operator new[](size, align_val_t(8192), nothrow), nullptr);
  }
}

TEST(NewHandler, CalledUntilItIsTakenAway) {
  EXPECT_EQ(0, in_child([] {
              void *(*const forms[])(size_t) = {
                  [](size_t n) { return ::operator new(n); },
                  [](size_t n) { return ::operator new[](n); },
                  [](size_t n) { return ::operator new(n, align_val_t(64)); },
                  [](size_t n) { return ::operator new[](n, align_val_t(64)); },
              };
              for (auto form : forms) {
                handler_calls = 0;
                std::set_new_handler(give_up_at_the_third_call);
                CHECK(throws_bad_alloc([=] { return form(opaque_size(TOO_MUCH)); }));
                CHECK(handler_calls == 3);
              }
              return true;
            }));
}

TEST(NewHandler, NothrowCallsItTooAndGivesNull) {
  EXPECT_EQ(0, in_child([] {
              void *(*const forms[])(size_t) = {
                  [](size_t n) { return ::operator new(n, nothrow); },
                  [](size_t n) { return ::operator new[](n, nothrow); },
                  [](size_t n) { return ::operator new(n, align_val_t(64), nothrow); },
                  [](size_t n) { return ::operator new[](n, align_val_t(64), nothrow); },
              };
              for (auto form : forms) {
                handler_calls = 0;
                std::set_new_handler(give_up_at_the_third_call);
                CHECK(form(opaque_size(TOO_MUCH)) == nullptr);
                CHECK(handler_calls == 3);
                handler_calls = 0;
                std::set_new_handler(throw_bad_alloc);
                CHECK(form(opaque_size(TOO_MUCH)) == nullptr);
                CHECK(handler_calls == 1);
              }
              return true;
            }));
}

TEST(NewHandler, ItsOwnExceptionComesThrough) {
  EXPECT_EQ(0, in_child([] {
              handler_calls = 0;
              std::set_new_handler(throw_own_kind);
              bool caught = false;
              try {
                opaque(::operator new(opaque_size(TOO_MUCH)));
              } catch (const Exhausted &) {
                caught = true;
              }
              CHECK(caught);
              CHECK(handler_calls == 1);
              std::set_new_handler(throw_something_else);
              caught = false;
              try {
                opaque(::operator new[](opaque_size(TOO_MUCH), align_val_t(64)));
              } catch (int value) {
                caught = value == 42;
              }
              CHECK(caught);
              return true;
            }));
}

TEST(NewHandler, HugeBlockOutOfMemoryThrows) {
  EXPECT_EQ(0, in_child([] {
              CHECK(limit_address_space(16 * MIB));
              CHECK(throws_bad_alloc([] { return ::operator new(64 * MIB); }));
              CHECK(::operator new(64 * MIB, nothrow) == nullptr);
              errno = 0;
              CHECK(opaque(malloc(64 * MIB)) == nullptr && errno == ENOMEM);
              // Less than what is left still works.
              void *p = ::operator new(1000);
              ::operator delete(p);
              return true;
            }));
}

TEST(NewHandler, SmallBlocksOutOfMemoryThrow) {
  for (size_t size : {size_t(64), size_t(2000), size_t(40000), size_t(400000)})
    EXPECT_EQ(0, in_child([=] {
                static void *blocks[2000000];
                CHECK(limit_address_space(24 * MIB));
                size_t count = 0;
                bool thrown = throws_bad_alloc([&] {
                  while (count < 2000000) {
                    blocks[count] = ::operator new(size);
                    fill_block(blocks[count], size, count);
                    count++;
                  }
                  return nullptr;
                });
                CHECK(thrown);
                CHECK(count * size >= 8 * MIB);
                for (size_t i = 0; i < count; i++) {
                  CHECK(block_is_filled(blocks[i], size, i));
                  ::operator delete(blocks[i]);
                }
                // What was freed serves again.
                for (size_t i = 0; i < count / 2; i++) blocks[i] = ::operator new(size);
                return true;
              }));
}

TEST(NewHandler, FreeingAHugeBlockMakesRoom) {
  EXPECT_EQ(0, in_child([] {
              ballast = ::operator new(64 * MIB);
              memset(ballast, 1, 64 * MIB);
              CHECK(limit_address_space(8 * MIB));
              handler_calls = 0;
              std::set_new_handler(free_the_ballast);
              void *p = ::operator new(48 * MIB);
              CHECK(p != nullptr);
              CHECK(handler_calls == 1);
              memset(p, 2, 48 * MIB);
              ::operator delete(p);
              return true;
            }));
}

TEST(NewHandler, FreeingSmallBlocksMakesRoomForSmallOnes) {
  EXPECT_EQ(0, in_child([] {
              small_ballast.reserve(1 << 20);
              for (int i = 0; i < 100000; i++) small_ballast.push_back(::operator new(200));
              CHECK(limit_address_space(4 * MIB));
              handler_calls = 0;
              std::set_new_handler(free_the_small_ballast);
              static void *blocks[1000000];
              size_t count = 0;
              while (handler_calls == 0 && count < 1000000) {
                blocks[count] = ::operator new(200);
                fill_block(blocks[count], 200, count);
                count++;
              }
              CHECK(handler_calls == 1);
              for (size_t i = 0; i < count; i++) CHECK(block_is_filled(blocks[i], 200, i));
              for (int i = 0; i < 50000; i++) CHECK(::operator new(200, nothrow) != nullptr);
              CHECK(handler_calls == 1);
              return true;
            }));
}

// Memory freed in small pieces has to be able to serve a big one: the warm pool is not a reason to
// fail.
TEST(NewHandler, FreeingSmallBlocksMakesRoomForAHugeOne) {
  EXPECT_EQ(0, in_child([] {
              small_ballast.reserve(1 << 20);
              for (int i = 0; i < 300000; i++) small_ballast.push_back(::operator new(200));
              CHECK(limit_address_space(8 * MIB));
              handler_calls = 0;
              std::set_new_handler(free_the_small_ballast);
              void *p = ::operator new(32 * MIB);
              CHECK(handler_calls == 1);
              memset(p, 1, 32 * MIB);
              return true;
            }));
}

} // namespace

int main(int argc, char **argv) {
  require_expected_allocator();
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
