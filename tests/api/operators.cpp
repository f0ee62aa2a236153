// operators.cpp - every operator new and delete, plain and through the language's own expressions.
#include "api_test.h"

#include <cerrno>
#include <list>
#include <malloc.h>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace {

using std::align_val_t;
using std::nothrow;

// An operator new, and the operators delete that may take its blocks.
struct Pair {
  const char *name;
  void *(*allocate)(size_t size, size_t alignment);
  void (*release)(void *p, size_t size, size_t alignment);
  bool aligned;
};

void *plain_new(size_t n, size_t) { return ::operator new(n); }
void *array_new(size_t n, size_t) { return ::operator new[](n); }
void *nothrow_new(size_t n, size_t) { return ::operator new(n, nothrow); }
void *nothrow_array_new(size_t n, size_t) { return ::operator new[](n, nothrow); }
void *aligned_new(size_t n, size_t a) { return ::operator new(n, align_val_t(a)); }
void *aligned_array_new(size_t n, size_t a) { return ::operator new[](n, align_val_t(a)); }
void *aligned_nothrow_new(size_t n, size_t a) { return ::operator new(n, align_val_t(a), nothrow); }
void *aligned_nothrow_array_new(size_t n, size_t a) {
  return ::operator new[](n, align_val_t(a), nothrow);
}

void plain_delete(void *p, size_t, size_t) { ::operator delete(p); }
void array_delete(void *p, size_t, size_t) { ::operator delete[](p); }
void sized_delete(void *p, size_t n, size_t) { ::operator delete(p, n); }
void sized_array_delete(void *p, size_t n, size_t) { ::operator delete[](p, n); }
void nothrow_delete(void *p, size_t, size_t) { ::operator delete(p, nothrow); }
void nothrow_array_delete(void *p, size_t, size_t) { ::operator delete[](p, nothrow); }
void aligned_delete(void *p, size_t, size_t a) { ::operator delete(p, align_val_t(a)); }
void aligned_array_delete(void *p, size_t, size_t a) { ::operator delete[](p, align_val_t(a)); }
void aligned_sized_delete(void *p, size_t n, size_t a) { ::operator delete(p, n, align_val_t(a)); }
void aligned_sized_array_delete(void *p, size_t n, size_t a) {
  ::operator delete[](p, n, align_val_t(a));
}
void aligned_nothrow_delete(void *p, size_t, size_t a) {
  ::operator delete(p, align_val_t(a), nothrow);
}
void aligned_nothrow_array_delete(void *p, size_t, size_t a) {
  ::operator delete[](p, align_val_t(a), nothrow);
}

const Pair pairs[] = {
    {"new/delete", plain_new, plain_delete, false},
    {"new/sized delete", plain_new, sized_delete, false},
    {"new/nothrow delete", plain_new, nothrow_delete, false},
    {"nothrow new/delete", nothrow_new, plain_delete, false},
    {"nothrow new/sized delete", nothrow_new, sized_delete, false},
    {"nothrow new/nothrow delete", nothrow_new, nothrow_delete, false},
    {"new[]/delete[]", array_new, array_delete, false},
    {"new[]/sized delete[]", array_new, sized_array_delete, false},
    {"new[]/nothrow delete[]", array_new, nothrow_array_delete, false},
    {"nothrow new[]/delete[]", nothrow_array_new, array_delete, false},
    {"nothrow new[]/sized delete[]", nothrow_array_new, sized_array_delete, false},
    {"nothrow new[]/nothrow delete[]", nothrow_array_new, nothrow_array_delete, false},
    {"aligned new/aligned delete", aligned_new, aligned_delete, true},
    {"aligned new/aligned sized delete", aligned_new, aligned_sized_delete, true},
    {"aligned new/aligned nothrow delete", aligned_new, aligned_nothrow_delete, true},
    {"aligned nothrow new/aligned delete", aligned_nothrow_new, aligned_delete, true},
    {"aligned nothrow new/aligned nothrow delete", aligned_nothrow_new, aligned_nothrow_delete,
     true},
    {"aligned new[]/aligned delete[]", aligned_array_new, aligned_array_delete, true},
    {"aligned new[]/aligned sized delete[]", aligned_array_new, aligned_sized_array_delete, true},
    {"aligned new[]/aligned nothrow delete[]", aligned_array_new, aligned_nothrow_array_delete,
     true},
    {"aligned nothrow new[]/aligned delete[]", aligned_nothrow_array_new, aligned_array_delete,
     true},
    {"aligned nothrow new[]/aligned nothrow delete[]", aligned_nothrow_array_new,
     aligned_nothrow_array_delete, true},
};

class Operators : public testing::TestWithParam<Pair> {};

TEST_P(Operators, GivesWritableAlignedBlocksOfEverySize) {
  const Pair &pair = GetParam();
  for (size_t alignment = 16; alignment <= (pair.aligned ? 4 * MIB : 16); alignment *= 4)
    for (size_t size : test_sizes) {
      unsigned char *p = static_cast<unsigned char *>(pair.allocate(opaque_size(size), alignment));
      ASSERT_NE(p, nullptr);
      ASSERT_TRUE(is_aligned(p, alignment));
      ASSERT_GE(malloc_usable_size(p), size);
      fill_block(p, size, size);
      ASSERT_TRUE(block_is_filled(p, size, size));
      ASSERT_TRUE(!expects("hakmem") || hak_owns(p));
      pair.release(p, size, alignment);
    }
}

TEST_P(Operators, GivesUniqueBlocksForZeroBytes) {
  const Pair &pair = GetParam();
  void *a = pair.allocate(opaque_size(0), 64);
  void *b = pair.allocate(opaque_size(0), 64);
  EXPECT_NE(a, nullptr);
  EXPECT_NE(b, nullptr);
  EXPECT_NE(a, b);
  pair.release(a, 0, 64);
  pair.release(b, 0, 64);
}

TEST_P(Operators, DeleteOfNullDoesNothing) {
  errno = 1234;
  GetParam().release(opaque(nullptr), 0, 64);
  EXPECT_EQ(errno, 1234);
}

TEST_P(Operators, DeleteKeepsErrno) {
  const Pair &pair = GetParam();
  for (size_t size : tier_sizes)
    for (int i = 0; i < 20; i++) {
      void *p = pair.allocate(size, 64);
      errno = 1234;
      pair.release(p, size, 64);
      ASSERT_EQ(errno, 1234);
    }
}

TEST_P(Operators, DeleteGivesTheMemoryBack) {
  const Pair &pair = GetParam();
  for (size_t size : tier_sizes) {
    size_t before = 0;
    int rounds = size < KIB ? 500000 : 2000;
    for (int i = 0; i < rounds; i++) {
      if (i == 100) before = address_space_used();
      pair.release(opaque(pair.allocate(size, 32)), size, 32);
    }
    ASSERT_LE(address_space_used(), before + 40 * MIB);
  }
}

// "new[]/sized delete[]" as a test's name: newArray_with_sized_deleteArray.
std::string test_name(const testing::TestParamInfo<Pair> &param) {
  std::string name;
  for (char c : std::string(param.param.name)) switch (c) {
    case ' ':
      name += "_";
      break;
    case '/':
      name += "_with_";
      break;
    case '[':
      name += "Array";
      break;
    case ']':
      break;
    default:
      name += c;
    }
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, Operators, testing::ValuesIn(pairs), test_name);

TEST(Expressions, OverAlignedTypes) {
  struct alignas(64) Line {
    char bytes[64];
  };
  struct alignas(4096) Page {
    char bytes[3 * 4096];
  };
  struct alignas(2 * 1024 * 1024) HugePage {
    char bytes[2 * 1024 * 1024];
  };
  for (int i = 0; i < 20; i++) {
    auto line = std::make_unique<Line>();
    auto lines = std::make_unique<Line[]>(33);
    auto page = std::make_unique<Page>();
    std::unique_ptr<HugePage> huge(new HugePage);
    EXPECT_TRUE(is_aligned(line.get(), 64));
    EXPECT_TRUE(is_aligned(lines.get(), 64));
    EXPECT_TRUE(is_aligned(page.get(), 4096));
    EXPECT_TRUE(is_aligned(huge.get(), 2 * MIB));
    memset(page->bytes, 1, sizeof page->bytes);
    memset(huge->bytes, 1, sizeof huge->bytes);
  }
  std::vector<Line> grown;
  for (int i = 0; i < 5000; i++) {
    grown.emplace_back();
    ASSERT_TRUE(is_aligned(grown.data(), 64));
  }
}

// An array of a type with a destructor carries a count in front of its elements, and delete[] gives
// the operator the address of that count.
TEST(Expressions, ArraysWithCookies) {
  struct Counted {
    std::string text = "longer than the string's own buffer, so on the heap";
  };
  struct alignas(128) Aligned {
    std::string text = "longer than the string's own buffer, so on the heap";
  };
  for (size_t count : {size_t(0), size_t(1), size_t(7), size_t(1000), size_t(60000)}) {
    std::unique_ptr<Counted[]> a(new Counted[count]);
    std::unique_ptr<Aligned[]> b(new Aligned[count]);
    EXPECT_TRUE(is_aligned(b.get(), 128));
    if (count > 0) {
      EXPECT_EQ(a[count - 1].text, b[count / 2].text);
    }
  }
}

// The block of an object whose constructor throws is given back by the matching operator delete.
TEST(Expressions, ThrowingConstructors) {
  struct Thrower {
    char bytes[100 * 1024];
    Thrower() { throw 42; }
  };
  struct alignas(256) AlignedThrower {
    char bytes[100 * 1024];
    AlignedThrower() { throw 42; }
  };
  size_t before = 0;
  for (int i = 0; i < 5000; i++) {
    if (i == 50) before = address_space_used();
    EXPECT_THROW(delete new Thrower, int);
    EXPECT_THROW(delete new (nothrow) Thrower, int);
    EXPECT_THROW(delete new AlignedThrower, int);
    EXPECT_THROW(delete new (nothrow) AlignedThrower, int);
  }
  EXPECT_LE(address_space_used(), before + 40 * MIB);
}

TEST(Expressions, Containers) {
  std::map<std::string, std::vector<int>> table;
  for (int i = 0; i < 20000; i++) table["key number " + std::to_string(i % 977)].push_back(i);
  size_t total = 0;
  for (auto &[key, values] : table) total += values.size();
  EXPECT_EQ(total, 20000u);
  std::list<std::string> words(1000, std::string(300, 'x'));
  words.remove_if([n = 0](const std::string &) mutable { return ++n % 2 == 0; });
  EXPECT_EQ(words.size(), 500u);
}

TEST(Expressions, BlocksCrossThreads) {
  std::vector<std::unique_ptr<std::string>> strings;
  std::thread maker([&] {
    for (int i = 0; i < 10000; i++)
      strings.push_back(std::make_unique<std::string>(200, char('a' + i % 26)));
  });
  maker.join();
  for (int i = 0; i < 10000; i++) ASSERT_EQ(strings[size_t(i)]->at(199), char('a' + i % 26));
  std::thread breaker([&] { strings.clear(); });
  breaker.join();
  EXPECT_TRUE(strings.empty());
}

// malloc's and new's blocks are of one kind here, as in glibc.
TEST(Expressions, NewAndMallocMix) {
  void *a = ::operator new(100);
  a = realloc(a, 100000);
  ASSERT_NE(a, nullptr);
  free(a);
  void *b = ::operator new(100, align_val_t(4096));
  free(b);
}

} // namespace

int main(int argc, char **argv) {
  require_expected_allocator();
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
