/* Memory that the program mapped itself is freed, at an address that is aligned as an allocator's own might be. */
#include "guarantee.h"

#include <sys/mman.h>

void run(void) {
  const size_t unit = (size_t)4 << 20;
  char *mapped = mmap(NULL, 2 * unit, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) give_up("mmap failed");
  char *target = (char *)(((uintptr_t)mapped + unit - 1) & ~(uintptr_t)(unit - 1));
  free_badly(target + 65536);
  end_if_untouched(mapped, 2 * unit, HANDED_OUT_TARGET);
}
