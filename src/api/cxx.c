/* cxx.c - every replaceable operator new and delete, by their mangled names, so that the library needs
 * no C++ runtime.
 *
 * A failing `new` calls the program's new-handler until it gives memory, and throws std::bad_alloc
 * when there is none (C++ [new.delete.single]); nothrow.cc turns that into NULL for the nothrow
 * forms. Handler and exception come from the program's own
 * C++ runtime, found at the moment of failure: it may have been loaded after us.
 */
#define _GNU_SOURCE
#include <dlfcn.h>

#include "api/api.h"
#include "observe/report.h"
#include "os/libc.h"

typedef void (*new_handler)(void);

extern new_handler get_new_handler(void) __asm__("_ZSt15get_new_handlerv") __attribute__((weak));
extern void throw_bad_alloc(void) __asm__("_ZSt17__throw_bad_allocv") __attribute__((weak));

/* libstdc++ and libc++ name the function that throws differently. */
static void (*find_throw(void *runtime))(void) {
  void *symbol = dlsym(runtime, "_ZSt17__throw_bad_allocv");
  if (symbol == NULL) symbol = dlsym(runtime, "_ZNSt3__117__throw_bad_allocEv");
  return (void (*)(void))symbol;
}

/* The C++ runtime that the object which called `new` was linked with: with dlopen(RTLD_LOCAL) it is in
 * nobody's global scope. NULL: no such object. */
static void *runtime_of(void *caller) {
  Dl_info info;
  if (dladdr(caller, &info) == 0 || info.dli_fname == NULL) return NULL;
  return libc_open_loaded(info.dli_fname);
}

static new_handler current_handler(void *runtime) {
  if (get_new_handler != NULL) return get_new_handler();
  void *symbol = dlsym(RTLD_DEFAULT, "_ZSt15get_new_handlerv");
  if (symbol == NULL && runtime != NULL) symbol = dlsym(runtime, "_ZSt15get_new_handlerv");
  return symbol != NULL ? ((new_handler(*)(void))symbol)() : NULL;
}

static void throw_from(void *runtime) {
  if (throw_bad_alloc != NULL) throw_bad_alloc();
  void (*thrower)(void) = find_throw(RTLD_DEFAULT);
  if (thrower == NULL && runtime != NULL) thrower = find_throw(runtime);
  if (thrower != NULL) thrower();
  report_corruption("operator new: out of memory, and no C++ runtime to throw std::bad_alloc");
}

static void *allocate_or_null(size_t size, size_t alignment) {
  return alignment <= BLOCK_ALIGNMENT ? api_malloc(size) : api_aligned_alloc(alignment, size);
}

void *cxx_new_slow(size_t size, size_t alignment, void *caller) HAK_HIDDEN;
void *cxx_new_or_null(size_t size, size_t alignment, void *caller) HAK_HIDDEN; /* nothrow.cc */

/* The throwing forms, once the first attempt has failed. */
HAK_COLD void *cxx_new_slow(size_t size, size_t alignment, void *caller) {
  void *runtime = get_new_handler != NULL ? NULL : runtime_of(caller);
  for (;;) {
    new_handler handler = current_handler(runtime);
    if (handler == NULL) throw_from(runtime);
    else handler(); /* may throw, may free memory */
    void *block = allocate_or_null(size, alignment);
    if (block != NULL) return block;
  }
}

/* The nothrow forms: without a handler there is nothing to call and nothing to catch. */
static HAK_COLD void *new_slow_nothrow(size_t size, size_t alignment, void *caller) {
  void *runtime = get_new_handler != NULL ? NULL : runtime_of(caller);
  return current_handler(runtime) == NULL ? NULL : cxx_new_or_null(size, alignment, caller);
}

#define CALLER __builtin_return_address(0)

HAK_INLINE void *or_throw(void *block, size_t size, void *caller) {
  return HAK_LIKELY(block != NULL) ? block : cxx_new_slow(size, 0, caller);
}

/* Jumped to: the return address is the program's. */
static HAK_NOINLINE void *new_with_empty_bin(size_t size) {
  return or_throw(front_allocate_slow(size), size, CALLER);
}
static HAK_NOINLINE void *new_sample(size_t size) {
  return or_throw(front_allocate_sample(size), size, CALLER);
}
static HAK_NOINLINE void *new_beyond(size_t size) {
  return or_throw(front_allocate_beyond(size), size, CALLER);
}

/* The tool that records calls has an api_malloc of its own (tools/trace_layer/bind.h). */
#ifdef api_malloc
enum { MALLOC_IS_OTHERS = 1 };
#else
enum { MALLOC_IS_OTHERS = 0 };
#endif

#define NEW(symbol)                                                                                \
  HAK_EXPORT HAK_AT_A_LINE void *symbol(size_t size);                                              \
  HAK_EXPORT void *symbol(size_t size) {                                                           \
    if (MALLOC_IS_OTHERS || full_may_be_on()) return or_throw(api_malloc(size), size, CALLER);     \
    return front_allocate_or(size, HAK_HARDENED, new_with_empty_bin, new_sample, new_beyond);      \
  }

#define NEW_ALIGNED(symbol)                                                                        \
  HAK_EXPORT void *symbol(size_t size, size_t alignment);                                          \
  HAK_EXPORT void *symbol(size_t size, size_t alignment) {                                         \
    void *block = allocate_or_null(size, alignment);                                               \
    return HAK_LIKELY(block != NULL) ? block : cxx_new_slow(size, alignment, CALLER);              \
  }

#define NEW_NOTHROW(symbol)                                                                        \
  HAK_EXPORT void *symbol(size_t size, const void *nothrow);                                       \
  HAK_EXPORT void *symbol(size_t size, const void *nothrow) {                                      \
    (void)nothrow;                                                                                 \
    void *block = api_malloc(size);                                                                \
    return HAK_LIKELY(block != NULL) ? block : new_slow_nothrow(size, 0, CALLER);                  \
  }

#define NEW_ALIGNED_NOTHROW(symbol)                                                                \
  HAK_EXPORT void *symbol(size_t size, size_t alignment, const void *nothrow);                     \
  HAK_EXPORT void *symbol(size_t size, size_t alignment, const void *nothrow) {                    \
    (void)nothrow;                                                                                 \
    void *block = allocate_or_null(size, alignment);                                               \
    return HAK_LIKELY(block != NULL) ? block : new_slow_nothrow(size, alignment, CALLER);          \
  }

/* Sizes, alignments and nothrow tags of delete tell nothing that the descriptor does not; the hardened variant compares. */
#define DELETE1(symbol)                                                                            \
  HAK_EXPORT HAK_AT_A_LINE void symbol(void *pointer);                                             \
  HAK_EXPORT void symbol(void *pointer) { api_free(pointer); }

#define DELETE2(symbol)                                                                            \
  HAK_EXPORT void symbol(void *pointer, size_t a);                                                 \
  HAK_EXPORT void symbol(void *pointer, size_t a) {                                                \
    (void)a;                                                                                       \
    api_free(pointer);                                                                             \
  }

#define DELETE3(symbol)                                                                            \
  HAK_EXPORT void symbol(void *pointer, size_t a, size_t b);                                       \
  HAK_EXPORT void symbol(void *pointer, size_t a, size_t b) {                                      \
    (void)a;                                                                                       \
    (void)b;                                                                                       \
    api_free(pointer);                                                                             \
  }

#define DELETE_ALIGNED(symbol)                                                                     \
  HAK_EXPORT void symbol(void *pointer, size_t alignment);                                         \
  HAK_EXPORT void symbol(void *pointer, size_t alignment) {                                        \
    guard_freed_aligned(pointer, alignment);                                                       \
    api_free(pointer);                                                                             \
  }

#define DELETE_SIZED(symbol)                                                                       \
  HAK_EXPORT HAK_AT_A_LINE void symbol(void *pointer, size_t size);                                \
  HAK_EXPORT void symbol(void *pointer, size_t size) { api_free_sized(pointer, size); }

#define DELETE_SIZED_ALIGNED(symbol)                                                               \
  HAK_EXPORT void symbol(void *pointer, size_t size, size_t alignment);                            \
  HAK_EXPORT void symbol(void *pointer, size_t size, size_t alignment) {                           \
    api_free_aligned_sized(pointer, alignment, size);                                              \
  }

NEW(_Znwm)                        /* new(size_t) */
NEW(_Znam)                        /* new[](size_t) */
NEW_ALIGNED(_ZnwmSt11align_val_t) /* new(size_t, align_val_t) */
NEW_ALIGNED(_ZnamSt11align_val_t) /* new[](size_t, align_val_t) */
NEW_NOTHROW(_ZnwmRKSt9nothrow_t)  /* new(size_t, nothrow) */
NEW_NOTHROW(_ZnamRKSt9nothrow_t)  /* new[](size_t, nothrow) */
NEW_ALIGNED_NOTHROW(_ZnwmSt11align_val_tRKSt9nothrow_t)
NEW_ALIGNED_NOTHROW(_ZnamSt11align_val_tRKSt9nothrow_t)

DELETE1(_ZdlPv)       /* delete(void *) */
DELETE1(_ZdaPv)       /* delete[](void *) */
DELETE_SIZED(_ZdlPvm) /* delete(void *, size_t) */
DELETE_SIZED(_ZdaPvm)
DELETE_ALIGNED(_ZdlPvSt11align_val_t)
DELETE_ALIGNED(_ZdaPvSt11align_val_t)
DELETE2(_ZdlPvRKSt9nothrow_t)
DELETE2(_ZdaPvRKSt9nothrow_t)
DELETE_SIZED_ALIGNED(_ZdlPvmSt11align_val_t)
DELETE_SIZED_ALIGNED(_ZdaPvmSt11align_val_t)
DELETE3(_ZdlPvSt11align_val_tRKSt9nothrow_t)
DELETE3(_ZdaPvSt11align_val_tRKSt9nothrow_t)
