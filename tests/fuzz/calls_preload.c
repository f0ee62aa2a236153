/* calls_preload.c - whatever malloc this process has, and hak_* if a library that has them is preloaded. */
#include "calls.h"

#include <dlfcn.h>
#include <stdlib.h>

static size_t usable_size(const void *memory) {
  return malloc_usable_size((void *)(uintptr_t)memory);
}

/* For libc's allocator, which has them only since 2.43. */
static void plain_free_sized(void *memory, size_t size) {
  (void)size;
  free(memory);
}

static void plain_free_aligned_sized(void *memory, size_t alignment, size_t size) {
  (void)alignment;
  plain_free_sized(memory, size);
}

/* The function of this name, or what stands there. */
#define FIND(place, name)                                                                          \
  do {                                                                                             \
    void *found = dlsym(RTLD_DEFAULT, name);                                                       \
    if (found != NULL) *(void **)&(place) = found;                                                 \
  } while (0)

static void find_own(struct family *own) {
  FIND(own->malloc, "hak_malloc");
  FIND(own->calloc, "hak_calloc");
  FIND(own->realloc, "hak_realloc");
  FIND(own->reallocarray, "hak_reallocarray");
  FIND(own->free, "hak_free");
  FIND(own->free_sized, "hak_free_sized");
  FIND(own->free_aligned_sized, "hak_free_aligned_sized");
  FIND(own->aligned_alloc, "hak_aligned_alloc");
  FIND(own->posix_memalign, "hak_posix_memalign");
  FIND(own->usable_size, "hak_usable_size");
}

const struct calls *fuzz_calls(void) {
  static struct calls calls;
  if (calls.memalign != NULL) return &calls;
  struct family *standard = &calls.families[0];
  *standard = (struct family){malloc,
                              calloc,
                              realloc,
                              reallocarray,
                              free,
                              plain_free_sized,
                              plain_free_aligned_sized,
                              aligned_alloc,
                              posix_memalign,
                              usable_size};
  FIND(standard->free_sized, "free_sized");
  FIND(standard->free_aligned_sized, "free_aligned_sized");
  calls.families[1] = *standard;
  find_own(&calls.families[1]);
  calls.valloc = valloc;
  calls.pvalloc = pvalloc;
  calls.malloc_trim = malloc_trim;
  calls.mallopt = mallopt;
  calls.malloc_info = malloc_info;
  calls.malloc_stats = malloc_stats;
  calls.mallinfo2 = mallinfo2;
  FIND(calls.owns, "hak_owns");
  FIND(calls.purge, "hak_purge");
  FIND(calls.should_move, "hak_should_move");
  FIND(calls.free_moved, "hak_free_moved");
  FIND(calls.stats_get, "hak_stats_get");
  FIND(calls.memory_stats_get, "hak_memory_stats_get");
  FIND(calls.class_stats_get, "hak_class_stats_get");
  FIND(calls.heap_create, "hak_heap_create");
  FIND(calls.heap_destroy, "hak_heap_destroy");
  FIND(calls.heap_malloc, "hak_heap_malloc");
  FIND(calls.heap_calloc, "hak_heap_calloc");
  FIND(calls.heap_aligned_alloc, "hak_heap_aligned_alloc");
  FIND(calls.heap_of, "hak_heap_of");
  FIND(calls.heap_stats_get, "hak_heap_stats_get");
  FIND(calls.heap_walk, "hak_heap_walk");
  calls.memalign = memalign;
  return &calls;
}
