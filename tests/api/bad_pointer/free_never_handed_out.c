/* An address inside memory of ours that was never given to the program: the end of the 2 MiB unit of
 * the first small block. */
#include "bad_pointer.h"

int main(void) {
  uintptr_t unit = (uintptr_t)2 * 1024 * 1024;
  uintptr_t p = (uintptr_t)take(100);
  free_badly((void *)((p & ~(unit - 1)) + unit - 4096), FOREIGN "|" INTERIOR "|" DOUBLE_FREE);
  return 0;
}
