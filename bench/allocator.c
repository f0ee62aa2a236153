/* allocator.c - see allocator.h. Compiled once for each benchmark binary, with one of BENCH_HAKMEM,
 * BENCH_MIMALLOC (then also BENCH_MIMALLOC_SOURCE) or neither (libc).
 */
#define _GNU_SOURCE
#include "allocator.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if BENCH_HAKMEM
#include "hakmem.h"
#elif BENCH_MIMALLOC
int mi_version(void);
#elif defined(__GLIBC__)
#include <gnu/libc-version.h>
#endif

static void name_linked(char *text, size_t size) {
#if BENCH_HAKMEM
  snprintf(text, size, "hakmem %s, %s variant", hak_version(), hak_variant());
#elif BENCH_MIMALLOC
  /* 30402 is 3.4.2; up to 2.1.x the number had three digits: 217 is 2.1.7 */
  int version = mi_version();
  int base = version < 10000 ? 10 : 100;
  snprintf(text, size, "mimalloc %d.%d.%d (%s)", version / (base * base), version / base % base,
           version % base, BENCH_MIMALLOC_SOURCE);
#elif defined(__GLIBC__)
  snprintf(text, size, "libc (glibc %s)", gnu_get_libc_version());
#else
  snprintf(text, size, "libc");
#endif
}

/* True when `file` is where malloc comes from if nothing is preloaded. */
static bool is_linked(const char *file, const char *program) {
#if BENCH_MIMALLOC
  if (strstr(file, "libmimalloc.so") != NULL) return true;
#elif !BENCH_HAKMEM
  if (strstr(file, "libc.") != NULL || strstr(file, "/ld-") != NULL) return true;
#endif
  return strcmp(file, program) == 0;
}

void bench_allocator(char *text, size_t size) {
  /* Volatile: the address has to be the one that a call reaches. */
  void *(*volatile allocate)(size_t) = malloc;
  Dl_info where, here;
  if (dladdr((void *)(size_t)allocate, &where) != 0 &&
      dladdr((void *)(size_t)bench_allocator, &here) != 0 &&
      !is_linked(where.dli_fname, here.dli_fname))
    snprintf(text, size, "%s (preloaded)", where.dli_fname);
  else name_linked(text, size);
}
