/* override_forms.c - functions of the malloc family that stand for others of it.
 *
 * A program may have a malloc of its own, without these: one with jemalloc linked in has no reallocarray. libc's call the program's realloc
 * and free then, and so do these. They are called as the loader finds them (cmake/replaced.list), so they are defined in another file.
 * memcheck puts its realloc and free where ours are, and knows none of these: so each is a call of them, also where they are ours. The recorder
 * (tools/trace_layer) wants to know what each was called with, and is not run under memcheck.
 */
#include "api/api.h"

void *realloc(void *pointer, size_t size);
void free(void *pointer);
extern __typeof__(realloc) own_realloc HAK_HIDDEN;
extern __typeof__(free) own_free HAK_HIDDEN;

#if !defined(API_RECORDS)
#define API_RECORDS 0
#endif

HAK_EXPORT void *reallocarray(void *pointer, size_t count, size_t size);
HAK_EXPORT void free_sized(void *pointer, size_t size);
HAK_EXPORT void free_aligned_sized(void *pointer, size_t alignment, size_t size);

HAK_EXPORT void *reallocarray(void *pointer, size_t count, size_t size) {
  size_t bytes;
  if (API_RECORDS && realloc == own_realloc) return api_reallocarray(pointer, count, size);
  return __builtin_mul_overflow(count, size, &bytes) ? api_calloc_overflow()
                                                     : realloc(pointer, bytes);
}

/* An alignment of 0: none was said. */
static void free_as(void *pointer, size_t size, size_t alignment) {
  bool is_own = free == own_free;
  if (API_RECORDS && is_own) {
    api_free_sized(pointer, size);
  } else {
    if (is_own) guard_freed_sized(pointer, size, alignment);
    free(pointer);
  }
}

HAK_EXPORT void free_sized(void *pointer, size_t size) { free_as(pointer, size, 0); }

HAK_EXPORT void free_aligned_sized(void *pointer, size_t alignment, size_t size) {
  free_as(pointer, size, alignment);
}

/* --- glibc's second names ------------------------------------------------------------------------------ */

/* Programs with a malloc of their own that hands on to these (before dlsym(RTLD_NEXT) there was no other way), and free what they get by
 * free(): both have to be of one allocator. Always ours, whatever the program calls malloc. Not in libhakmem.a (cmake/library.cmake). */
#if defined(__GLIBC__)
HAK_EXPORT void *__libc_malloc(size_t size);
HAK_EXPORT void *__libc_calloc(size_t count, size_t size);
HAK_EXPORT void *__libc_realloc(void *pointer, size_t size);
HAK_EXPORT void __libc_free(void *pointer);
HAK_EXPORT void *__libc_memalign(size_t alignment, size_t size);
HAK_EXPORT void *__libc_valloc(size_t size);
HAK_EXPORT void *__libc_pvalloc(size_t size);
void *own_memalign(size_t alignment, size_t size) HAK_HIDDEN; /* override.c */
void *own_valloc(size_t size) HAK_HIDDEN;
void *own_pvalloc(size_t size) HAK_HIDDEN;

HAK_EXPORT void *__libc_malloc(size_t size) { return api_malloc(size); }
HAK_EXPORT void *__libc_calloc(size_t count, size_t size) { return api_calloc(count, size); }
HAK_EXPORT void *__libc_realloc(void *pointer, size_t size) { return api_realloc(pointer, size); }
HAK_EXPORT void __libc_free(void *pointer) { api_free(pointer); }
HAK_EXPORT void *__libc_memalign(size_t alignment, size_t size) {
  return own_memalign(alignment, size);
}
HAK_EXPORT void *__libc_valloc(size_t size) { return own_valloc(size); }
HAK_EXPORT void *__libc_pvalloc(size_t size) { return own_pvalloc(size); }
#endif
