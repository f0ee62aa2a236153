/* libc.c - see libc.h.
 *
 * glibc exports its allocator under second names. They are looked up in its table: dlsym() would itself allocate, and to refer to
 * them would lead to ours. musl has none, so there the next malloc in link order is looked up.
 */
#define _GNU_SOURCE
#include "os/libc.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>

#include "os/loaded.h"

void *libc_open_loaded(const char *library) {
  /* Not called by its name: the linker warns about dlopen() in every static program. */
  void *(*function)(const char *, int) =
      (void *(*)(const char *, int))dlsym(RTLD_DEFAULT, "dlopen");
  return function != NULL ? function(library, RTLD_LAZY | RTLD_NOLOAD) : NULL;
}

void libc_close_loaded(void *library) { (void)dlclose(library); }

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

static void *allocator(const char *name) {
#if defined(__GLIBC__)
  static const char second[] = "__libc_";
  struct loaded libc;
  char full[32];
  ElfW(Sym) * symbol;
  size_t length = 0;
  for (const char *at = second; *at != 0; at++) full[length++] = *at;
  for (; *name != 0 && length < sizeof full - 1; name++) full[length++] = *name;
  full[length] = 0;
  if (!loaded_libc(&libc) || loaded_find(&libc, full, &symbol, 1) == 0) return NULL;
  return (void *)(libc.base + symbol->st_value); /* NOLINT(performance-no-int-to-ptr) */
#else
  return libc_function(name);
#endif
}

bool libc_is_reachable(void) { return allocator("malloc") != NULL; }

static void *no_memory(void) {
  errno = ENOMEM;
  return NULL;
}

/* relaxed: a function, there before us */
#define RESOLVE(name)                                                                              \
  static _Atomic(void *) known;                                                                    \
  void *found = atomic_load_explicit(&known, memory_order_relaxed);                                \
  if (found == NULL) {                                                                             \
    found = allocator(#name);                                                                      \
    atomic_store_explicit(&known, found, memory_order_relaxed);                                    \
  }                                                                                                \
  __typeof__(&libc_##name) function = (__typeof__(&libc_##name))found

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
