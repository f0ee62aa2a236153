/* libc.c - see libc.h.
 *
 * glibc exports its allocator under second names; weak references to them need no dlsym(), which
 * would itself allocate. musl has none, so there the next malloc in link order is looked up.
 */
#define _GNU_SOURCE
#include "os/libc.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>

extern void *__libc_malloc(size_t) __attribute__((weak));
extern void *__libc_calloc(size_t, size_t) __attribute__((weak));
extern void *__libc_realloc(void *, size_t) __attribute__((weak));
extern void *__libc_memalign(size_t, size_t) __attribute__((weak));
extern void __libc_free(void *) __attribute__((weak));

void *libc_open_loaded(const char *library) {
  /* Not called by its name: the linker warns about dlopen() in every static program. */
  void *(*function)(const char *, int) =
      (void *(*)(const char *, int))dlsym(RTLD_DEFAULT, "dlopen");
  return function != NULL ? function(library, RTLD_LAZY | RTLD_NOLOAD) : NULL;
}

void *libc_function(const char *name) {
#if defined(__GLIBC__)
  /* In libc itself, not the next in line: a program may be linked with another allocator, and then
   * half of the calls would go there. */
  static _Atomic(void *) libc;
  void *handle = atomic_load_explicit(&libc, memory_order_relaxed);
  if (handle == NULL) {
    handle = libc_open_loaded("libc.so.6");
    atomic_store_explicit(&libc, handle, memory_order_relaxed);
  }
  return handle != NULL ? dlsym(handle, name) : NULL;
#else
  return dlsym(RTLD_NEXT, name);
#endif
}

bool libc_is_reachable(void) {
#if defined(__GLIBC__)
  return __libc_malloc != NULL; /* no dlsym(): in a static program it would call our malloc */
#else
  return libc_function("malloc") != NULL;
#endif
}

static void *no_memory(void) {
  errno = ENOMEM;
  return NULL;
}

#define RESOLVE(name)                                                                              \
  __typeof__(&libc_##name) function = __libc_##name;                                               \
  if (function == NULL) function = (__typeof__(function))libc_function(#name)

void *libc_malloc(size_t size) {
  RESOLVE(malloc);
  return function != NULL ? function(size) : no_memory();
}

void *libc_calloc(size_t count, size_t size) {
  RESOLVE(calloc);
  return function != NULL ? function(count, size) : no_memory();
}

void *libc_realloc(void *block, size_t size) {
  RESOLVE(realloc);
  return function != NULL ? function(block, size) : no_memory();
}

void *libc_memalign(size_t alignment, size_t size) {
  RESOLVE(memalign);
  return function != NULL ? function(alignment, size) : no_memory();
}

void libc_free(void *block) {
  RESOLVE(free);
  if (function != NULL) function(block);
}

size_t libc_usable_size(void *block) {
  size_t (*function)(void *) = (size_t(*)(void *))libc_function("malloc_usable_size");
  return function != NULL ? function(block) : 0;
}
