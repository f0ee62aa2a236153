/* With so many others freed in between that the thread's cache has given blocks back. */
#include "bad_pointer.h"

int main(void) {
  size_t count = (size_t)64 * 1024 * 1024 / BLOCK_SIZE;
  if (count > 200000) count = 200000;
  void **others = take(count * sizeof *others);
  void *p = take(BLOCK_SIZE);
  void *neighbour = take(BLOCK_SIZE); /* keeps the slab in use */
  for (size_t i = 0; i < count; i++) others[i] = take(BLOCK_SIZE);
  free(p);
  for (size_t i = 0; i < count; i++) free(others[i]);
  free_badly(opaque(p), DOUBLE_FREE_OF_TIER);
  free(neighbour);
  return 0;
}
