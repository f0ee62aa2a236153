/* deepbind.c - libraries that are opened with RTLD_DEEPBIND, and functions that are looked up in libc's own handle, allocate where the
 * program does (docs/decisions/0031).
 *
 * Such a library looks names up in itself and what it needs before it looks among all libraries of the program. libc is among what it
 * needs, so it would find libc's malloc and free although another is preloaded, and free blocks that it did not
 * allocate. So does a program that opens libc by its name, to call its functions (Python's ctypes, Ruby's Fiddle). Here dlopen makes
 * libc's table say, at the first call of either kind, what the program finds under these names. All other names are found as they were.
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
#include "os/text.h"
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

/* "libc.so.6", with a path or without. */
static bool is_libc(const char *file) {
  static const char start[] = "libc.so";
  if (file == NULL) return false;
  for (const char *at = file; *at != 0; at++)
    if (*at == '/') file = at + 1;
  return text_begins(file, start, sizeof start - 1);
}

static HAK_COLD dlopen_function *prepare(dlopen_function *function, bool replaces) {
  if (function == NULL) {
    function = (dlopen_function *)dlsym(RTLD_NEXT, "dlopen");
    if (function == NULL) return not_there; /* glibc before 2.34, in a program without libdl.so */
    atomic_store_explicit(&next, function, memory_order_relaxed);
  }
  /* Where libc's allocator serves the program it may serve all. What is called here opens libc as well. */
  static _Thread_local bool replacing __attribute__((tls_model("initial-exec")));
  if (replaces && !replacing) {
    replacing = true;
    /* Options are read by the first call, which this may be. */
    if (heap_start() && option_value(DEEPBIND) && !heap_calls_libc())
      symbols_replace_in_libc(family, sizeof family / sizeof *family);
    replacing = false;
  }
  return function;
}

HAK_EXPORT void *dlopen(const char *file, int mode) {
  dlopen_function *function = atomic_load_explicit(&next, memory_order_relaxed);
  bool replaces = (mode & RTLD_DEEPBIND) != 0 || is_libc(file);
  if (HAK_UNLIKELY(function == NULL || replaces)) function = prepare(function, replaces);
  JUMP function(file, mode);
}
#endif
