// One misuse, or one right use, of each kind that hardened_malloc's test directory has: `outcomes NAME`. Written anew from the
// names and from what that suite's runner expects; outcomes.py says how each has to end.
//
// Ends with 0 where the allocator did its part and nothing stopped the program, 1 where it did not, 2 without the function.
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <malloc.h>
#include <new>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

namespace {

constexpr size_t tiny = 16, shortish = 128, large = size_t{256} << 10;
constexpr size_t page = 4096, far_away = size_t{1} << 30;

struct alignas(64) over_aligned {
  char bytes[24];
};
struct alignas(8192) page_aligned {
  char bytes[9000];
};
struct one_byte {
  char byte;
};
struct four_words {
  uint64_t words[4];
};

// Keeps the compiler from seeing through the mistake.
template <typename T> T *opaque(T *pointer) {
  __asm__ volatile("" : "+r"(pointer) : : "memory");
  return pointer;
}

char *take(size_t size) {
  char *block = static_cast<char *>(opaque(std::malloc(size)));
  if (block == nullptr) _exit(1);
  return block;
}

void give(void *pointer) { std::free(opaque(pointer)); }

void put(char *at, char value) { *const_cast<volatile char *>(opaque(at)) = value; }
char get(char *at) { return *const_cast<volatile char *>(opaque(at)); }

bool all_zero(char *from, size_t bytes) {
  for (size_t i = 0; i < bytes; i++)
    if (get(from + i) != 0) return false;
  return true;
}

template <typename F> F *function(const char *name) {
  void *found = dlsym(RTLD_DEFAULT, name);
  if (found == nullptr) _exit(2);
  return reinterpret_cast<F *>(found);
}

// hakmem's word for how much of a block is left behind an address.
size_t room(const void *at) { return function<size_t(const void *)>("hak_room")(opaque(at)); }

void *mapping(int protection) {
  give(take(tiny));
  char *at =
      static_cast<char *>(mmap(nullptr, 16 * page, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  return at == MAP_FAILED ? nullptr : at + 8 * page;
}

void *garbage() { return reinterpret_cast<void *>(opaque(reinterpret_cast<char *>(1))); }

bool twice(size_t size, bool another_between) {
  char *block = take(size), *other = another_between ? take(size) : nullptr;
  give(block);
  give(other);
  give(block);
  return true;
}

bool overflow(size_t size, size_t beyond) {
  char *block = take(size), *at = block + malloc_usable_size(opaque(block)) + beyond;
  put(at, static_cast<char>(get(at) ^ 1));
  give(block);
  return true;
}

template <typename T> bool delete_aligned(ptrdiff_t wrong_by) {
  T *block = opaque(new T);
  operator delete(block, sizeof(T) + static_cast<size_t>(wrong_by), std::align_val_t(alignof(T)));
  return true;
}

bool free_with_size(size_t size) {
  char *block = take(size);
  std::memset(block, 'a', size);
  function<void(void *, size_t)>("free_sized")(opaque(block), size);
  return true;
}

bool free_least_aligned() {
  void *block = nullptr;
  if (posix_memalign(&block, 16, 0) != 0) return false;
  function<void(void *, size_t, size_t)>("free_aligned_sized")(opaque(block), 16, 0);
  return true;
}

bool delete_other_type() {
  delete reinterpret_cast<four_words *>(opaque(new one_byte));
  return true;
}

bool usable(void *pointer) {
  (void)!malloc_usable_size(opaque(static_cast<char *>(pointer)));
  return true;
}

bool freed(void *pointer) {
  give(pointer);
  return true;
}

char *just_freed(size_t size) {
  char *block = take(size);
  std::memset(block, 'a', 16);
  give(block);
  return block;
}

bool write_after_free(size_t size, size_t at, bool another_owner) {
  char *block = just_freed(size);
  if (another_owner) (void)take(size);
  put(block + at, 'a');
  for (int i = 0; size <= shortish && i < 100000; i++) give(take(size));
  return true;
}

bool string_ends_with_block() {
  char *block = take(tiny);
  size_t size = malloc_usable_size(block);
  std::memset(block, 'a', size);
  return std::strlen(opaque(block)) == size;
}

bool refuses(void *block, int reason) { return block == nullptr && reason == ENOMEM; }

bool multiplies_beyond() {
  errno = 0;
  void *block = std::calloc(*opaque(&far_away) << 33, 2);
  return refuses(block, errno);
}

bool far_too_large() {
  errno = 0;
  void *block = std::malloc(static_cast<size_t>(-static_cast<ptrdiff_t>(*opaque(&shortish))));
  return refuses(block, errno);
}

void *resize_and_free(void *block) {
  give(std::realloc(block, 1024));
  return nullptr;
}

bool resized_elsewhere() {
  pthread_t thread;
  void *block = std::realloc(nullptr, 12);
  if (block == nullptr || pthread_create(&thread, nullptr, resize_and_free, block) != 0)
    return false;
  return pthread_join(thread, nullptr) == 0;
}

bool grows() {
  char *block = nullptr;
  size_t size = large;
  for (int i = 0; i < 20; i++, size += size / 2) {
    block = static_cast<char *>(std::realloc(block, size));
    if (block == nullptr) return false;
    std::memset(block, 'a', size);
  }
  return true;
}

bool calloc_is_zero() {
  char *block = static_cast<char *>(std::calloc(128, 16));
  bool zero = block != nullptr && all_zero(block, size_t{128} * 16);
  give(block);
  return zero;
}

bool none_reuses_empty_block() {
  char *empty = take(0);
  for (int i = 0; i < 512; i++) {
    char *other = take(64);
    if (other == empty) return false;
    give(other);
  }
  return true;
}

bool room_of_block() {
  char *block = take(tiny);
  size_t size = room(block);
  return size >= tiny && size == malloc_usable_size(block);
}

bool room_from_inside() {
  char *block = take(tiny);
  return room(block + 5) + 5 == room(block);
}

struct outcome {
  const char *name;
  bool (*run)();
};

const outcome outcomes[] = {
    {"aligned_sized_delete_large", [] { return delete_aligned<page_aligned>(0); }},
    {"aligned_sized_delete_small", [] { return delete_aligned<over_aligned>(0); }},
    {"aligned_sized_delete_small_min_align", free_least_aligned},
    {"calloc_overflow", multiplies_beyond},
    {"calloc_zeroed", calloc_is_zero},
    {"delete_type_size_mismatch", delete_other_type},
    {"double_free_large", [] { return twice(large, false); }},
    {"double_free_large_delayed", [] { return twice(large, true); }},
    {"double_free_small", [] { return twice(tiny, false); }},
    {"double_free_small_delayed", [] { return twice(tiny, true); }},
    {"free_sized_large", [] { return free_with_size(size_t{1} << 20); }},
    {"free_sized_small", [] { return free_with_size(100); }},
    {"impossibly_large_malloc", far_too_large},
    {"invalid_aligned_sized_delete_large", [] { return delete_aligned<page_aligned>(-10); }},
    {"invalid_aligned_sized_delete_small", [] { return delete_aligned<over_aligned>(64); }},
    {"invalid_free_protected", [] { return freed(mapping(PROT_NONE)); }},
    {"invalid_free_small_region", [] { return freed(take(tiny) + 4 * page); }},
    {"invalid_free_small_region_far", [] { return freed(take(tiny) + far_away); }},
    {"invalid_free_unprotected", [] { return freed(mapping(PROT_READ | PROT_WRITE)); }},
    {"invalid_malloc_object_size_small", [] { return room(take(tiny) + 4 * page) != 0; }},
    {"invalid_malloc_object_size_small_quarantine", [] { return room(just_freed(tiny)) != 0; }},
    {"invalid_malloc_usable_size_small", [] { return usable(take(tiny) + 4 * page); }},
    {"invalid_malloc_usable_size_small_quarantine", [] { return usable(just_freed(tiny)); }},
    {"large_array_growth", grows},
    {"malloc_noreuse", none_reuses_empty_block},
    {"malloc_object_size", room_of_block},
    {"malloc_object_size_offset", room_from_inside},
    {"malloc_object_size_zero", [] { return room(take(0)) == 0; }},
    {"malloc_zero_different", [] { return take(0) != take(0); }},
    {"overflow_large_1_byte", [] { return overflow(large, 0); }},
    {"overflow_large_8_byte", [] { return overflow(large, 7); }},
    {"overflow_small_1_byte", [] { return overflow(8, 0); }},
    {"overflow_small_8_byte", [] { return overflow(8, 7); }},
    {"read_after_free_large", [] { return all_zero(just_freed(large), large); }},
    {"read_after_free_small", [] { return all_zero(just_freed(tiny), tiny); }},
    {"read_zero_size", [] { return get(take(0)) == 0; }},
    {"realloc_init", resized_elsewhere},
    {"string_overflow", string_ends_with_block},
    {"unaligned_free_large", [] { return freed(take(large) + 1); }},
    {"unaligned_free_small", [] { return freed(take(tiny) + 1); }},
    {"unaligned_malloc_usable_size_small", [] { return usable(take(tiny) + 1); }},
    {"uninitialized_free", [] { return freed(garbage()); }},
    {"uninitialized_malloc_usable_size", [] { return usable(garbage()); }},
    {"uninitialized_read_large", [] { return all_zero(take(large), large); }},
    {"uninitialized_read_small", [] { return all_zero(take(8), 8); }},
    {"uninitialized_realloc", [] { return std::realloc(garbage(), tiny) != nullptr; }},
    {"write_after_free_large", [] { return write_after_free(large, large / 4 + 1, false); }},
    {"write_after_free_large_reuse", [] { return write_after_free(large, large / 4 + 1, true); }},
    {"write_after_free_small", [] { return write_after_free(shortish, 65, false); }},
    {"write_after_free_small_reuse", [] { return write_after_free(shortish, 65, true); }},
    {"write_zero_size",
     [] {
       put(take(0), 5);
       return true;
     }},
};

} // namespace

int main(int count, char **arguments) {
  for (const outcome &one : outcomes) {
    if (count < 2) std::puts(one.name);
    else if (std::strcmp(one.name, arguments[1]) == 0) return one.run() ? 0 : 1;
  }
  return count < 2 ? 0 : 3;
}
