/* probe.c - what a preloaded library does for a program; scripts/build_peers.py and tests/peers run it.
 *
 * Prints, a line each:
 *   FUNCTION LIBRARY   for every function of the malloc family and operator new and delete: the file it is in
 *   works              when each of them did what it has to do
 *   mi_version TEXT, mallctl TEXT   the peer's own version, if it exports the function
 * Ends with 1 and a line on stderr when something does not work.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const FUNCTIONS[] = {
    "malloc",
    "free",
    "calloc",
    "realloc",
    "memalign",
    "aligned_alloc",
    "posix_memalign",
    "malloc_usable_size",
    "reallocarray",
    "_Znwm",
    "_Znam",
    "_ZdlPv",
    "_ZdaPv",
    "_ZdlPvm",
    "_ZnwmSt11align_val_t",
    "_ZdlPvSt11align_val_t",
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum { BLOCKS = 3000 };

static void require(bool holds, const char *what) {
  if (holds) return;
  fprintf(stderr, "probe: %s\n", what);
  exit(1);
}

static void require_aligned(void *block, size_t alignment, size_t size, const char *what) {
  require(block != NULL && (uintptr_t)block % alignment == 0, what);
  require(malloc_usable_size(block) >= size, what);
  memset(block, 1, size);
  free(block);
}

/* Sizes from 1 byte to 1.5 MiB, in an order that mixes them; the size is odd, so it is never 0. */
static size_t size_of(size_t number) {
  return ((number * 2654435761u) >> (number % 20)) % 1500000 | 1;
}

static void *churn(void *unused) {
  (void)unused;
  static const size_t AT_A_TIME = 50;
  unsigned char **blocks = calloc(BLOCKS, sizeof *blocks);
  require(blocks != NULL, "calloc");
  for (size_t i = 0; i < BLOCKS; i++) {
    require(blocks[i] == NULL, "calloc: not zero");
    size_t size = size_of(i);
    blocks[i] = malloc(size);
    require(blocks[i] != NULL && malloc_usable_size(blocks[i]) >= size, "malloc");
    blocks[i][0] = blocks[i][size - 1] = (unsigned char)i;
    if (i < AT_A_TIME) continue;
    size_t old = i - AT_A_TIME;
    require(blocks[old][0] == (unsigned char)old, "malloc: content");
    blocks[old] = realloc(blocks[old], size_of(old) + 1000);
    require(blocks[old] != NULL && blocks[old][0] == (unsigned char)old, "realloc: content");
    free(blocks[old]);
  }
  for (size_t i = BLOCKS - AT_A_TIME; i < BLOCKS; i++) free(blocks[i]);
  free(blocks);
  return NULL;
}

int main(void) {
  for (size_t i = 0; i < COUNT(FUNCTIONS); i++) {
    void *function = dlsym(RTLD_DEFAULT, FUNCTIONS[i]);
    Dl_info where;
    if (function != NULL && dladdr(function, &where) != 0)
      printf("%s %s\n", FUNCTIONS[i], where.dli_fname);
  }

  int (*mi_version)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "mi_version");
  if (mi_version != NULL) {
    /* 30302 is 3.3.2; up to 2.1.x the number had three digits: 217 is 2.1.7 */
    int version = mi_version(), base = version < 10000 ? 10 : 100;
    printf("mi_version %d.%d.%d\n", version / (base * base), version / base % base, version % base);
  }
  int (*mallctl)(const char *, void *, size_t *, void *, size_t) =
      (int (*)(const char *, void *, size_t *, void *, size_t))dlsym(RTLD_DEFAULT, "mallctl");
  const char *text = NULL;
  size_t length = sizeof text;
  if (mallctl != NULL && mallctl("version", &text, &length, NULL, 0) == 0)
    printf("mallctl %s\n", text);

  /* No further: Debian 12's mimalloc (2.0.9) aligns aligned_alloc(256, 256) to 128 only, and is
   * measured all the same. */
  for (size_t alignment = sizeof(void *); alignment <= 64; alignment *= 2) {
    void *block = NULL;
    require(posix_memalign(&block, alignment, 100) == 0, "posix_memalign");
    require_aligned(block, alignment, 100, "posix_memalign");
    require_aligned(aligned_alloc(alignment, alignment), alignment, alignment, "aligned_alloc");
    require_aligned(memalign(alignment, 3000), alignment, 3000, "memalign");
  }
  pthread_t threads[4];
  for (size_t i = 0; i < COUNT(threads); i++)
    require(pthread_create(&threads[i], NULL, churn, NULL) == 0, "pthread_create");
  churn(NULL);
  for (size_t i = 0; i < COUNT(threads); i++) pthread_join(threads[i], NULL);
  puts("works");
  return 0;
}
