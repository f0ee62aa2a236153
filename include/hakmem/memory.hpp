/* hakmem/memory.hpp - hakmem for C++: heaps as objects, an allocator for containers, a deleter, and (from C++17 on) a memory resource.
 *
 *   hakmem::heap sessions("sessions", 64 << 20);       // a name and a limit in bytes
 *   std::vector<int, hakmem::heap_allocator<int>> ids(sessions.allocator<int>());
 *   std::vector<int, hakmem::allocator<int>> others;   // of the library's own malloc, without a heap
 *   hakmem::memory_resource resource(sessions);        // std::pmr, C++17
 *   hakmem::unique_ptr<char[]> text(static_cast<char *>(hak_malloc(100)));
 *
 * Header alone; C++11 and later. All sizes are in bytes. Safe to use from any thread, as hakmem.h says of the functions behind it. */
#ifndef HAKMEM_MEMORY_HPP
#define HAKMEM_MEMORY_HPP

#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include "../hakmem.h"

#if __cplusplus >= 201703L && defined(__has_include)
#if __has_include(<memory_resource>)
#include <memory_resource>
#define HAKMEM_HAS_MEMORY_RESOURCE 1
#endif
#endif

namespace hakmem {

namespace detail {

/* Of `count` objects of this size; throws where there is no such number of bytes. */
inline std::size_t bytes_of(std::size_t count, std::size_t size) {
  if (count > static_cast<std::size_t>(-1) / size) throw std::bad_array_new_length();
  return count * size;
}

inline void *checked(void *block) {
  if (block == nullptr) throw std::bad_alloc();
  return block;
}

/* What every block has. */
constexpr std::size_t usual_alignment = 16;

inline void *allocate(std::size_t bytes, std::size_t alignment) {
  return checked(alignment <= usual_alignment ? hak_malloc(bytes)
                                              : hak_aligned_alloc(alignment, bytes));
}

inline void *allocate(hak_heap *heap, std::size_t bytes, std::size_t alignment) {
  return checked(alignment <= usual_alignment ? hak_heap_malloc(heap, bytes)
                                              : hak_heap_aligned_alloc(heap, alignment, bytes));
}

inline void deallocate(void *block, std::size_t bytes, std::size_t alignment) noexcept {
  if (alignment <= usual_alignment) hak_free_sized(block, bytes);
  else hak_free_aligned_sized(block, alignment, bytes);
}

} // namespace detail

template <class T> class heap_allocator;

/** Owns a heap (hak_heap_create): all its blocks are gone with it, without their destructors. Throws std::bad_alloc
 * where none can be made. Moved from, it has none. */
class heap {
public:
  explicit heap(const char *name = nullptr, std::size_t limit = 0)
      : heap_(hak_heap_create(name, limit)) {
    if (heap_ == nullptr) throw std::bad_alloc();
  }
  heap(heap &&other) noexcept : heap_(other.release()) {}
  heap &operator=(heap &&other) noexcept {
    if (this != &other) {
      hak_heap_destroy(heap_);
      heap_ = other.release();
    }
    return *this;
  }
  heap(const heap &) = delete;
  heap &operator=(const heap &) = delete;
  ~heap() { hak_heap_destroy(heap_); }

  /** The heap for the functions of hakmem.h; NULL after it was moved from. */
  hak_heap *get() const noexcept { return heap_; }
  /** Gives the heap up without destroying it. */
  hak_heap *release() noexcept {
    hak_heap *given = heap_;
    heap_ = nullptr;
    return given;
  }
  const char *name() const noexcept { return hak_heap_name(heap_); }
  hak_heap_stats stats() const noexcept {
    hak_heap_stats all = {};
    all.size = sizeof all;
    (void)hak_heap_stats_get(heap_, &all);
    return all;
  }
  template <class T> heap_allocator<T> allocator() const noexcept {
    return heap_allocator<T>(heap_);
  }

private:
  hak_heap *heap_;
};

/** For containers: blocks of hakmem, without a state. Throws std::bad_alloc, or std::bad_array_new_length. */
template <class T> class allocator {
public:
  using value_type = T;
  using is_always_equal = std::true_type;
  using propagate_on_container_move_assignment = std::true_type;

  allocator() noexcept = default;
  template <class U>
  allocator(const allocator<U> &) noexcept {} // NOLINT(google-explicit-constructor)

  T *allocate(std::size_t count) {
    return static_cast<T *>(detail::allocate(detail::bytes_of(count, sizeof(T)), alignof(T)));
  }
  void deallocate(T *block, std::size_t count) noexcept {
    detail::deallocate(block, count * sizeof(T), alignof(T));
  }
};

template <class T, class U> bool operator==(const allocator<T> &, const allocator<U> &) noexcept {
  return true;
}
template <class T, class U> bool operator!=(const allocator<T> &, const allocator<U> &) noexcept {
  return false;
}

/** For containers whose memory is in one heap, which outlives them. */
template <class T> class heap_allocator {
public:
  using value_type = T;
  using is_always_equal = std::false_type;
  using propagate_on_container_copy_assignment = std::true_type;
  using propagate_on_container_move_assignment = std::true_type;
  using propagate_on_container_swap = std::true_type;

  explicit heap_allocator(hak_heap *heap) noexcept : heap_(heap) {}
  explicit heap_allocator(const hakmem::heap &heap) noexcept : heap_(heap.get()) {}
  template <class U>
  heap_allocator(const heap_allocator<U> &other) noexcept // NOLINT(google-explicit-constructor)
      : heap_(other.get()) {}

  hak_heap *get() const noexcept { return heap_; }
  T *allocate(std::size_t count) {
    return static_cast<T *>(
        detail::allocate(heap_, detail::bytes_of(count, sizeof(T)), alignof(T)));
  }
  void deallocate(T *block, std::size_t count) noexcept {
    detail::deallocate(block, count * sizeof(T), alignof(T));
  }

private:
  hak_heap *heap_;
};

template <class T, class U>
bool operator==(const heap_allocator<T> &a, const heap_allocator<U> &b) noexcept {
  return a.get() == b.get();
}
template <class T, class U>
bool operator!=(const heap_allocator<T> &a, const heap_allocator<U> &b) noexcept {
  return !(a == b);
}

/** For std::unique_ptr and std::shared_ptr: hak_free, without a destructor. */
struct deleter {
  void operator()(const volatile void *block) const noexcept {
    hak_free(const_cast<void *>(block));
  }
};
template <class T> using unique_ptr = std::unique_ptr<T, deleter>;

#ifdef HAKMEM_HAS_MEMORY_RESOURCE

/** For std::pmr: hakmem's blocks, or those of one heap, which outlives the resource. */
class memory_resource : public std::pmr::memory_resource {
public:
  memory_resource() noexcept = default;
  explicit memory_resource(hak_heap *heap) noexcept : heap_(heap) {}
  explicit memory_resource(const hakmem::heap &heap) noexcept : heap_(heap.get()) {}
  hak_heap *get() const noexcept { return heap_; }

private:
  void *do_allocate(std::size_t bytes, std::size_t alignment) override {
    return heap_ != nullptr ? detail::allocate(heap_, bytes, alignment)
                            : detail::allocate(bytes, alignment);
  }
  void do_deallocate(void *block, std::size_t bytes, std::size_t alignment) override {
    detail::deallocate(block, bytes, alignment);
  }
  bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override {
    if (this == &other) return true;
#if defined(__cpp_rtti) || defined(__GXX_RTTI)
    const auto *same = dynamic_cast<const memory_resource *>(&other);
    return same != nullptr && same->heap_ == heap_;
#else
    return false;
#endif
  }

  hak_heap *heap_ = nullptr;
};

#endif

} // namespace hakmem

#endif
