/* operator delete is told an alignment that the block's address contradicts. */
#include "guarantee.h"

#include <new>

void run() {
  const std::align_val_t alignment{65536};
  void *block = ::operator new(tier.full);
  while (reinterpret_cast<uintptr_t>(block) % 65536 == 0) block = ::operator new(tier.full);
  if (twin) block = ::operator new(65536, alignment);
  announce(nullptr, block);
  ::operator delete(opaque(block), alignment);
  end_if_all_differ(tier.full);
}
