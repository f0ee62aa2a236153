/* nothrow.cc - the one thing that C cannot do: stop an exception.
 *
 * C++ [new.delete.single]: a nothrow `new` that fails calls the new-handler as the throwing form does,
 * and returns NULL when the handler throws. The catch needs three functions of the C++ runtime. They
 * are weak here, so that the library still needs no C++ runtime: where there is none, nobody has
 * installed a handler that could throw.
 */
#include <stddef.h> // not <cstddef>: musl-gcc has no C++ headers

__asm__(".weak __gxx_personality_v0\n"
        ".weak __cxa_begin_catch\n"
        ".weak __cxa_end_catch\n"
        ".weak _Unwind_Resume\n");

extern "C" {
/* cxx.c: the throwing forms' slow half. */
__attribute__((visibility("hidden"))) void *cxx_new_slow(size_t size, size_t alignment,
                                                         void *caller);
__attribute__((visibility("hidden"))) void *cxx_new_or_null(size_t size, size_t alignment,
                                                            void *caller);

__attribute__((visibility("hidden"))) void *cxx_call_or_null(void *(*form)(size_t), size_t size);
__attribute__((visibility("hidden"))) void *cxx_call_aligned_or_null(void *(*form)(size_t, size_t),
                                                                     size_t size, size_t alignment);

void *cxx_new_or_null(size_t size, size_t alignment, void *caller) {
  try {
    return cxx_new_slow(size, alignment, caller);
  } catch (...) {
    return nullptr;
  }
}

// A program's own throwing form.
void *cxx_call_or_null(void *(*form)(size_t), size_t size) {
  try {
    return form(size);
  } catch (...) {
    return nullptr;
  }
}

void *cxx_call_aligned_or_null(void *(*form)(size_t, size_t), size_t size, size_t alignment) {
  try {
    return form(size, alignment);
  } catch (...) {
    return nullptr;
  }
}
}
