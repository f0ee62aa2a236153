/* A mapping of the program's own, aligned like one of ours. */
#include "bad_pointer.h"

#include <sys/mman.h>

int main(void) {
  size_t unit = 2 * 1024 * 1024;
  char *p = mmap(NULL, 2 * unit, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return 2;
  free_badly((void *)(((uintptr_t)p + unit - 1) & ~(unit - 1)), FOREIGN);
  return 0;
}
