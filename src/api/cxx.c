/* cxx.c - operator new and delete of one object, by their mangled names, so that the library needs no C++ runtime. All other forms
 * call these (cxx_arrays.c, cxx_forms.c), so that a program may replace some.
 *
 * A failing `new` calls the program's new-handler until it gives memory, and throws std::bad_alloc
 * when there is none (C++ [new.delete.single]); nothrow.cc turns that into NULL for the nothrow
 * forms. Handler and exception come from the program's own
 * C++ runtime, found at the moment of failure: it may have been loaded after us.
 */
#define _GNU_SOURCE
#include <dlfcn.h>

#include "api/api.h"
#include "api/cxx.h"
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

struct runtime {
  new_handler (*handler)(void); /* NULL: there is none */
  void (*throws)(void);
};

static new_handler (*find_handler(void *runtime))(void) {
  return (new_handler(*)(void))dlsym(runtime, "_ZSt15get_new_handlerv");
}

/* The program's C++ runtime, or that which the object that called `new` was linked with: with dlopen(RTLD_LOCAL) it is in nobody's global
 * scope. The object is given back before anything is called, for that may throw; who called is in it, so it stays. */
static struct runtime runtime_for(void *caller) {
  struct runtime runtime = {get_new_handler, throw_bad_alloc};
  Dl_info info;
  if (runtime.handler == NULL) runtime.handler = find_handler(RTLD_DEFAULT);
  if (runtime.throws == NULL) runtime.throws = find_throw(RTLD_DEFAULT);
  if (runtime.handler != NULL && runtime.throws != NULL) return runtime;
  if (dladdr(caller, &info) == 0 || info.dli_fname == NULL) return runtime;
  void *object = libc_open_loaded(info.dli_fname);
  if (object == NULL) return runtime;
  if (runtime.handler == NULL) runtime.handler = find_handler(object);
  if (runtime.throws == NULL) runtime.throws = find_throw(object);
  libc_close_loaded(object);
  return runtime;
}

static new_handler current_handler(const struct runtime *runtime) {
  return runtime->handler != NULL ? runtime->handler() : NULL;
}

static void throw_from(const struct runtime *runtime) {
  if (runtime->throws != NULL) runtime->throws();
  report_corruption("operator new: out of memory, and no C++ runtime to throw std::bad_alloc");
}

static void *allocate_or_null(size_t size, size_t alignment) {
  return alignment <= BLOCK_ALIGNMENT ? api_malloc(size) : api_aligned_alloc(alignment, size);
}

/* The throwing forms, once the first attempt has failed. */
HAK_COLD void *cxx_new_slow(size_t size, size_t alignment, void *caller) {
  struct runtime runtime = runtime_for(caller);
  for (;;) {
    new_handler handler = current_handler(&runtime);
    if (handler == NULL) throw_from(&runtime);
    else handler(); /* may throw, may free memory */
    void *block = allocate_or_null(size, alignment);
    if (block != NULL) return block;
  }
}

/* The nothrow forms: without a handler there is nothing to call and nothing to catch. */
static HAK_COLD void *new_slow_nothrow(size_t size, size_t alignment, void *caller) {
  struct runtime runtime = runtime_for(caller);
  return current_handler(&runtime) == NULL ? NULL : cxx_new_or_null(size, alignment, caller);
}

void *cxx_new_nothrow(size_t size, size_t alignment, void *caller) {
  void *block = allocate_or_null(size, alignment);
  return HAK_LIKELY(block != NULL) ? block : new_slow_nothrow(size, alignment, caller);
}

#define CALLER __builtin_return_address(0)

HAK_INLINE void *or_throw(void *block, size_t size, void *caller) {
  return HAK_LIKELY(block != NULL) ? block : cxx_new_slow(size, 0, caller);
}

/* Jumped to: the return address is the program's. */
static HAK_NOINLINE void *new_with_empty_bin(size_t size) {
  return or_throw(full_or_slow(size), size, CALLER);
}
static HAK_NOINLINE void *new_sample(size_t size) {
  return or_throw(full_or_sample(size), size, CALLER);
}
static HAK_NOINLINE void *new_beyond(size_t size) {
  return or_throw(full_or_beyond(size), size, CALLER);
}

HAK_EXPORT HAK_AT_A_LINE void *_Znwm(size_t size) {
  if (MALLOC_IS_OTHERS) return or_throw(api_malloc(size), size, CALLER);
  return front_allocate_or(size, FRONT_FAST, HAK_HARDENED, new_with_empty_bin, new_sample,
                           new_beyond);
}

HAK_EXPORT void *_ZnwmSt11align_val_t(size_t size, size_t alignment) {
  void *block = allocate_or_null(size, alignment);
  return HAK_LIKELY(block != NULL) ? block : cxx_new_slow(size, alignment, CALLER);
}

HAK_EXPORT HAK_AT_A_LINE void _ZdlPv(void *pointer) { api_free(pointer); }

HAK_EXPORT void _ZdlPvSt11align_val_t(void *pointer, size_t alignment) {
  guard_freed_aligned(pointer, alignment);
  api_free(pointer);
}

HAK_OWN(_Znwm);
HAK_OWN(_ZnwmSt11align_val_t);
HAK_OWN(_ZdlPv);
HAK_OWN(_ZdlPvSt11align_val_t);
