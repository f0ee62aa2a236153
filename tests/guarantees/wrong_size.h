/* wrong_size.h - a block is freed with a size that it does not have. An allocator that believes it hands the block
 * out to who needs that size: with a live block in its second half, where the size was too large. */
#ifndef WRONG_SIZE_H
#define WRONG_SIZE_H

#include "guarantee.h"

typedef void free_sized_function(void *block, size_t size);

static inline void free_with_size(free_sized_function *function, size_t size) {
  unsigned low = 0, high = 0;
  crowd_take(&crowd, tier.full, tier.many);
  (void)crowd_nearest(&crowd, &low, &high);
  void *block = crowd.block[low];
  crowd.block[low] = crowd.block[high]; /* the block is not one of those that live any more */
  announce(NULL, block);
  function(opaque(block), size);
  crowd_take_untouched(&crowd_of_others, size, tier.many);
  for (unsigned i = 0; i < crowd.count; i++)
    if (crowd_touches(&crowd_of_others, crowd.block[i], crowd.size))
      harm("a block shorter than asked for");
  survived();
}

/* C23 has these functions, and not every C library has them yet. */
static inline void *function_named(const char *name) {
  void *function = dlsym(RTLD_DEFAULT, name);
  if (function == NULL) give_up("no such function");
  return function;
}

#endif
