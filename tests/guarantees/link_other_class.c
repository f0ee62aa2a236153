/* The link of a free block is made to lead to a free block that is smaller. */
#include "written_after.h"

void run(void) {
  void *small = take(tier.full / 4), *neighbour = take(tier.full / 4);
  free(small);
  write_link((uintptr_t)(twin ? neighbour : small), sizeof(void *),
             "a block shorter than asked for");
}
