/* GARBAGE: an address with nothing behind it. */
#include "bad_pointer.h"

int main(void) {
  free_badly((void *)(uintptr_t)GARBAGE, FOREIGN);
  return 0;
}
