/* A byte is written to a block of no bytes. */
#include "guarantee.h"

void run(void) {
  unsigned char *block = opaque(malloc((size_t)(uintptr_t)opaque(NULL)));
  if (block == NULL) give_up("malloc gave NULL");
  announce("free", block);
  access_begins();
  if (!twin) change_byte(block);
  access_ends();
  free(block);
  survived();
}
