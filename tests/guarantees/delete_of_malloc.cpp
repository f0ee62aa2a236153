/* operator delete gets a block that malloc gave. */
#include "guarantee.h"

#include <new>

void run() {
  void *block = twin ? ::operator new(tier.size) : take(tier.size);
  announce(nullptr, block);
  ::operator delete(opaque(block));
  end_if_all_differ(tier.size);
}
