// symbols.cpp - every name of the interface resolves to one and the same object: the library, or the
// program itself when it was linked with the archive. A name that was missed would hand out or take
// blocks of another allocator.
//
// Usage: symbols <path of the object that has to define them>
#include "api_test.h"

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <malloc.h>
#include <new>

namespace {

// Looked up by name, as a dlsym of a profiler or of another library does.
const char *const names[] = {
    "malloc", "calloc", "realloc", "reallocarray", "free", "free_sized", "free_aligned_sized",
    "aligned_alloc", "posix_memalign", "memalign", "valloc", "pvalloc", "malloc_usable_size",
    "malloc_trim", "mallinfo", "mallinfo2", "malloc_info", "malloc_stats", "mallopt",
    // operator new, new[]: plain, nothrow, aligned, aligned nothrow
    "_Znwm", "_Znam", "_ZnwmRKSt9nothrow_t", "_ZnamRKSt9nothrow_t", "_ZnwmSt11align_val_t",
    "_ZnamSt11align_val_t", "_ZnwmSt11align_val_tRKSt9nothrow_t",
    "_ZnamSt11align_val_tRKSt9nothrow_t",
    // operator delete, delete[]: plain, sized, nothrow, aligned, sized aligned, aligned nothrow
    "_ZdlPv", "_ZdaPv", "_ZdlPvm", "_ZdaPvm", "_ZdlPvRKSt9nothrow_t", "_ZdaPvRKSt9nothrow_t",
    "_ZdlPvSt11align_val_t", "_ZdaPvSt11align_val_t", "_ZdlPvmSt11align_val_t",
    "_ZdaPvmSt11align_val_t", "_ZdlPvSt11align_val_tRKSt9nothrow_t",
    "_ZdaPvSt11align_val_tRKSt9nothrow_t"};

struct Reference {
  const char *name;
  void *address;
};

template <typename Function> void *address_of(Function *function) {
  return reinterpret_cast<void *>(function);
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
// As the linker bound them: these carry the symbol versions of libc and libstdc++, which a library
// with a version script of its own can fail to satisfy.
const Reference references[] = {
    {"malloc", address_of(malloc)},
    {"calloc", address_of(calloc)},
    {"realloc", address_of(realloc)},
    {"reallocarray", address_of(reallocarray)},
    {"free", address_of(free)},
    {"aligned_alloc", address_of(aligned_alloc)},
    {"posix_memalign", address_of(posix_memalign)},
    {"memalign", address_of(memalign)},
    {"valloc", address_of(valloc)},
    {"pvalloc", address_of(pvalloc)},
    {"malloc_usable_size", address_of(malloc_usable_size)},
    {"malloc_trim", address_of(malloc_trim)},
    {"mallinfo", address_of(mallinfo)},
    {"mallinfo2", address_of(mallinfo2)},
    {"malloc_info", address_of(malloc_info)},
    {"malloc_stats", address_of(malloc_stats)},
    {"mallopt", address_of(mallopt)},
    {"new", address_of<void *(std::size_t)>(operator new)},
    {"new[]", address_of<void *(std::size_t)>(operator new[])},
    {"new nothrow", address_of<void *(std::size_t, const std::nothrow_t &) noexcept>(operator new)},
    {"new[] nothrow",
     address_of<void *(std::size_t, const std::nothrow_t &) noexcept>(operator new[])},
    {"new aligned", address_of<void *(std::size_t, std::align_val_t)>(operator new)},
    {"new[] aligned", address_of<void *(std::size_t, std::align_val_t)>(operator new[])},
    {"delete", address_of<void(void *) noexcept>(operator delete)},
    {"delete[]", address_of<void(void *) noexcept>(operator delete[])},
    {"delete sized", address_of<void(void *, std::size_t) noexcept>(operator delete)},
    {"delete[] sized", address_of<void(void *, std::size_t) noexcept>(operator delete[])},
    {"delete aligned", address_of<void(void *, std::align_val_t) noexcept>(operator delete)},
    {"delete[] aligned", address_of<void(void *, std::align_val_t) noexcept>(operator delete[])},
};
#pragma GCC diagnostic pop

bool lies_in(const char *name, void *address, const char *expected) {
  Dl_info info;
  if (address == nullptr || dladdr(address, &info) == 0) {
    std::fprintf(stderr, "%s: not defined\n", name);
    return false;
  }
  char actual[PATH_MAX], wanted[PATH_MAX];
  if (realpath(info.dli_fname, actual) == nullptr || realpath(expected, wanted) == nullptr ||
      std::strcmp(actual, wanted) != 0) {
    std::fprintf(stderr, "%s: found in %s, not in %s\n", name, info.dli_fname, expected);
    return false;
  }
  return true;
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: symbols <object>\n");
    return 2;
  }
  int wrong = 0;
  for (const char *name : names) wrong += !lies_in(name, dlsym(RTLD_DEFAULT, name), argv[1]);
  for (const Reference &reference : references)
    wrong += !lies_in(reference.name, reference.address, argv[1]);
  std::printf("%zu names, %d wrong\n",
              sizeof names / sizeof names[0] + sizeof references / sizeof references[0], wrong);
  return wrong == 0 ? 0 : 1;
}
