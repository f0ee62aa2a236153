/* Telling a foreign pointer apart must not read it. */
#include "bad_pointer.h"

#include <sys/mman.h>

int main(void) {
  char *p = mmap(NULL, 1 << 22, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return 2;
  free_badly(p + 65536, FOREIGN);
  return 0;
}
