/* With other blocks of the size freed in between: the block is no longer the head of any list. */
#include "bad_pointer.h"

int main(void) {
  enum { OTHERS = 30 };
  void *others[OTHERS];
  void *p = take(BLOCK_SIZE);
  for (int i = 0; i < OTHERS; i++) others[i] = take(BLOCK_SIZE);
  free(p);
  for (int i = 0; i < OTHERS; i++) free(others[i]);
  free_badly(opaque(p), DOUBLE_FREE_OF_TIER);
  return 0;
}
