/* What an allocator left in a freed block is read: does it tell where another block lies? */
#include "guarantee.h"

void run(void) {
  unsigned char *other = take(tier.full), *block = take(tier.full);
  if (twin) memset(block, 0, tier.full);
  free(twin ? NULL : other);
  free(twin ? NULL : block);
  announce(NULL, block);
  uint64_t word[2];
  access_begins();
  memcpy(word, opaque(block), sizeof word);
  access_ends();
  for (int i = 0; i < 2; i++) {
    uint64_t distance = word[i] - (uintptr_t)other + 65536;
    /* Mixed with the page's number, as safe-linking does: whoever reads it can take that off again. */
    uint64_t unmixed = (word[i] ^ (uintptr_t)block >> 12) - (uintptr_t)other + 65536;
    if (distance < 131072 || unmixed < 131072) harm("the address of a block is read");
  }
  survived();
}
