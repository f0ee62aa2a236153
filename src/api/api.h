/* api.h - the malloc family once, for every name it is exported under (malloc, hak_malloc, new).
 *
 * Inline, so that each exported symbol holds its fast path and makes no second jump. Contracts are
 * those of include/hakmem.h.
 */
#ifndef HAK_API_H
#define HAK_API_H

#include <errno.h>

#include "front/full.h"

#define HAK_EXPORT __attribute__((visibility("default")))
/* For what programs call most: the length of other functions must not decide where these cross a line (docs/decisions/0022). */
#define HAK_AT_A_LINE __attribute__((aligned(64)))
/* One of ours under a name that nobody replaces: own_x for x. */
#define HAK_NAME_OF(symbol) #symbol
#define HAK_OWN(symbol)                                                                            \
  extern __typeof__(symbol) own_##symbol                                                           \
      __attribute__((alias(HAK_NAME_OF(symbol)), visibility("hidden")))

/* As much as glibc has on most systems, whose mapping of twice that counts as memory. */
#define ALIGNMENT_MAX (16 * GIB)

void *api_realloc(void *pointer, size_t size);
void *api_reallocarray(void *pointer, size_t count, size_t size);
void *api_calloc_overflow(void);
void *api_aligned_alloc(size_t alignment, size_t size);
int api_posix_memalign(void **out, size_t alignment, size_t size);
size_t api_usable_size(const void *pointer);
/** Fills a structure whose first word is its size, as the caller knows it, with what both sides know: a program built with another version
 * of the header gets that. 0, or EINVAL: the size is not even that of size and version. */
int api_copy_known(void *stats, const void *all, uint32_t size, size_t known);

HAK_INLINE void *api_malloc(size_t size) {
  return front_allocate_or(size, FRONT_FAST, HAK_HARDENED, full_or_slow, full_or_sample,
                           full_or_beyond);
}

HAK_INLINE void api_free(void *pointer) {
  front_free_or(pointer, FRONT_FAST, HAK_HARDENED, guard_free_near);
}

/** For callers that know the size; it tells nothing that the descriptor does not, but the hardened variant compares. */
HAK_INLINE void api_free_sized(void *pointer, size_t size) {
  guard_freed_sized(pointer, size, 0);
  api_free(pointer);
}

/** The same with the alignment that was asked for. */
HAK_INLINE void api_free_aligned_sized(void *pointer, size_t alignment, size_t size) {
  guard_freed_sized(pointer, size, alignment);
  api_free(pointer);
}

HAK_INLINE void *api_calloc(size_t count, size_t size) {
  size_t bytes;
  if (HAK_UNLIKELY(__builtin_mul_overflow(count, size, &bytes))) return api_calloc_overflow();
  return full_is_on() ? full_allocate(BLOCK_ALIGNMENT, bytes, true) : front_allocate_zeroed(bytes);
}

HAK_INLINE bool is_power_of_two(size_t n) { return n != 0 && (n & (n - 1)) == 0; }

#endif
