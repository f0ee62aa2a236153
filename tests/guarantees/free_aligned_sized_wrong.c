/* free_aligned_sized is told an alignment that the block's address contradicts. */
#include "wrong_size.h"

typedef void free_aligned_sized_function(void *block, size_t alignment, size_t size);

void run(void) {
  const size_t alignment = 65536;
  free_aligned_sized_function *function =
      (free_aligned_sized_function *)function_named("free_aligned_sized");
  void *block = take(tier.full);
  while ((uintptr_t)block % alignment == 0) block = take(tier.full);
  if (twin) block = aligned_alloc(alignment, alignment);
  announce(NULL, block);
  function(opaque(block), alignment, twin ? alignment : tier.full);
  end_if_all_differ(tier.full);
}
