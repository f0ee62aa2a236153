/* calls_linked.c - the library is part of this program: hak_*, and the standard names as family.c has them. */
#include "calls.h"

#include "os/fault.h"

void *family_malloc(size_t size);
void *family_calloc(size_t count, size_t size);
void *family_realloc(void *memory, size_t size);
void *family_reallocarray(void *memory, size_t count, size_t size);
void family_free(void *memory);
void family_free_sized(void *memory, size_t size);
void family_free_aligned_sized(void *memory, size_t alignment, size_t size);
void *family_aligned_alloc(size_t alignment, size_t size);
int family_posix_memalign(void **out, size_t alignment, size_t size);
size_t family_usable_size(void *memory);
void *family_memalign(size_t alignment, size_t size);
void *family_valloc(size_t size);
void *family_pvalloc(size_t size);
int family_trim(size_t pad);
int family_mallopt(int parameter, int value);
int family_info(int options, FILE *stream);
void family_stats(void);
struct mallinfo2 family_mallinfo2(void);

static size_t usable_size(const void *memory) {
  return family_usable_size((void *)(uintptr_t)memory);
}

const struct calls *fuzz_calls(void) {
  static const struct calls calls = {
      .families = {{family_malloc, family_calloc, family_realloc, family_reallocarray, family_free,
                    family_free_sized, family_free_aligned_sized, family_aligned_alloc,
                    family_posix_memalign, usable_size},
                   {hak_malloc, hak_calloc, hak_realloc, hak_reallocarray, hak_free, hak_free_sized,
                    hak_free_aligned_sized, hak_aligned_alloc, hak_posix_memalign,
                    hak_usable_size}},
      .memalign = family_memalign,
      .valloc = family_valloc,
      .pvalloc = family_pvalloc,
      .malloc_trim = family_trim,
      .mallopt = family_mallopt,
      .malloc_info = family_info,
      .malloc_stats = family_stats,
      .mallinfo2 = family_mallinfo2,
      .owns = hak_owns,
      .purge = hak_purge,
      .should_move = hak_should_move,
      .free_moved = hak_free_moved,
      .stats_get = hak_stats_get,
      .memory_stats_get = hak_memory_stats_get,
      .class_stats_get = hak_class_stats_get,
      .heap_create = hak_heap_create,
      .heap_destroy = hak_heap_destroy,
      .heap_malloc = hak_heap_malloc,
      .heap_calloc = hak_heap_calloc,
      .heap_aligned_alloc = hak_heap_aligned_alloc,
      .heap_of = hak_heap_of,
      .heap_stats_get = hak_heap_stats_get,
      .heap_walk = hak_heap_walk,
      .fault_reset = os_fault_reset,
      .fault_fail_nth = os_fault_fail_nth,
      .fault_fail_from = os_fault_fail_from,
      .fault_random = os_fault_random,
      .fault_injected = os_fault_injected,
      .starts_late = true,
  };
  return &calls;
}
