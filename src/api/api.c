/* api.c - the parts of api.h that need no fast path. */
#include "api/api.h"

#include <string.h>

#include "observe/report.h"
#include "os/libc.h"

void *api_calloc_overflow(void) {
  errno = ENOMEM;
  return NULL;
}

/* What is no block of the thread's own slabs. */
static HAK_NOINLINE void *reallocate_any(void *pointer, size_t size) {
  struct block block = block_look_up(pointer);
  if (HAK_UNLIKELY(block.wrong != NULL)) {
    if (heap_calls_libc()) return libc_realloc(pointer, size);
    block_refuse("realloc", pointer, block.wrong);
    errno = ENOMEM;
    return NULL;
  }
  if (size == 0) {
    api_free(pointer);
    return NULL;
  }
  return full_is_on() ? full_reallocate(pointer, &block, size)
                      : front_reallocate(pointer, &block, size);
}

void *api_realloc(void *pointer, size_t size) {
  if (HAK_UNLIKELY(pointer == NULL)) return api_malloc(size);
  size_t usable = front_own_usable(pointer);
  if (usable != 0 && HAK_LIKELY(front_small_stays(usable, size))) return pointer;
  if (usable != 0 && size != 0) return front_reallocate_own(pointer, usable, size);
  if (!full_is_on() && front_large_stays(pointer, size)) return pointer;
  return reallocate_any(pointer, size);
}

void *api_reallocarray(void *pointer, size_t count, size_t size) {
  size_t bytes;
  if (HAK_UNLIKELY(__builtin_mul_overflow(count, size, &bytes))) return api_calloc_overflow();
  return api_realloc(pointer, bytes);
}

void *api_aligned_alloc(size_t alignment, size_t size) {
  if (!is_power_of_two(alignment)) {
    errno = EINVAL;
    return NULL;
  }
  if (alignment > ALIGNMENT_MAX || size > PTRDIFF_MAX) return api_calloc_overflow();
  return full_is_on() ? full_allocate(alignment, size, false)
                      : front_allocate_aligned(alignment, size);
}

int api_posix_memalign(void **out, size_t alignment, size_t size) {
  if (!is_power_of_two(alignment) || alignment < sizeof(void *)) return EINVAL;
  int saved = errno;
  void *block = api_aligned_alloc(alignment, size);
  /* As glibc, where programs read it; EINVAL, above, is told by the result alone there. */
  errno = block != NULL ? saved : ENOMEM;
  if (block == NULL) return ENOMEM;
  *out = block;
  return 0;
}

size_t api_usable_size(const void *pointer) {
  if (pointer == NULL) return 0;
  size_t usable = front_own_usable(pointer);
  if (HAK_LIKELY(usable != 0)) return usable;
  struct block block = block_look_up(pointer);
  if (HAK_LIKELY(block.wrong == NULL))
    return full_is_on() ? full_size("malloc_usable_size", &block, pointer)
                        : block_usable(&block, pointer);
  if (heap_calls_libc()) return libc_usable_size((void *)(uintptr_t)pointer);
  block_refuse("malloc_usable_size", pointer, block.wrong);
  return 0;
}

int api_copy_known(void *stats, const void *all, uint32_t size, size_t known) {
  enum { SIZE_AND_VERSION = 2 * sizeof(uint32_t) };
  if (size <= SIZE_AND_VERSION) return EINVAL;
  memcpy((char *)stats + sizeof size, (const char *)all + sizeof size,
         (size < known ? size : known) - sizeof size);
  return 0;
}
