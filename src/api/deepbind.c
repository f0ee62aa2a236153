/* deepbind.c - libraries that are opened with RTLD_DEEPBIND allocate where the program does (docs/decisions/0031).
 *
 * Such a library looks names up in itself and what it needs before it looks among all libraries of the program. libc is among what it
 * needs, so it would find libc's malloc and free although another is preloaded, and free blocks that it did not
 * allocate. Here dlopen makes libc's table say, at the first such call, what the program finds under these names. All
 * other names are found as the flag asks.
 *
 * Part of libhakmem.so alone: libhakmem.a may be in a static program, which has no dlopen of this kind.
 */
#define _GNU_SOURCE
#include <dlfcn.h>

/* dlopen takes its caller for the one that the return address lies in, and looks for libraries in the folders that the caller's
 * file names (DT_RUNPATH). So the real one has to be jumped to, not called, which compilers do when they optimise; for
 * ppc64le they do not. */
#if defined(__GLIBC__) && defined(RTLD_DEEPBIND) && defined(__OPTIMIZE__) &&                       \
    (defined(__x86_64__) || defined(__aarch64__) || defined(__riscv))
#include <stdatomic.h>

#include "api/api.h"
#include "os/symbols.h"
#include "policy/options.h"

#if defined(__has_attribute)
#if __has_attribute(musttail)
#define JUMP __attribute__((musttail)) return
#endif
#endif
#if !defined(JUMP)
#define JUMP return
#endif

typedef void *dlopen_function(const char *file, int mode);

static void *not_there(const char *file, int mode) {
  (void)file;
  (void)mode;
  return NULL;
}

static const char *const family[] = {
    "malloc",
    "calloc",
    "realloc",
    "reallocarray",
    "free",
    "free_sized",
    "free_aligned_sized",
    "valloc",
    "pvalloc",
    "memalign",
    "aligned_alloc",
    "mallinfo",
    "posix_memalign",
    "mallinfo2",
    "mallopt",
    "cfree",
    "malloc_info",
    "malloc_stats",
    "malloc_trim",
    "malloc_usable_size",
};

/* The next one in the program's order, found at the first call. relaxed: it is a function, there before us. */
static _Atomic(dlopen_function *) next;

static HAK_COLD dlopen_function *prepare(dlopen_function *function, int mode) {
  if (function == NULL) {
    function = (dlopen_function *)dlsym(RTLD_NEXT, "dlopen");
    if (function == NULL) return not_there; /* glibc before 2.34, in a program without libdl.so */
    atomic_store_explicit(&next, function, memory_order_relaxed);
  }
  /* Where libc's allocator serves the program it may serve all. */
  if ((mode & RTLD_DEEPBIND) != 0 && option_value(DEEPBIND) && !heap_calls_libc())
    symbols_replace_in_libc(family, sizeof family / sizeof *family);
  return function;
}

HAK_EXPORT void *dlopen(const char *file, int mode) {
  dlopen_function *function = atomic_load_explicit(&next, memory_order_relaxed);
  if (HAK_UNLIKELY(function == NULL || (mode & RTLD_DEEPBIND) != 0))
    function = prepare(function, mode);
  JUMP function(file, mode);
}
#endif
