/* memcpy writes one byte behind its block. */
#include "copied.h"

void run(void) {
  struct copied c = take_copied(tier.full);
  announce("memcpy", c.middle);
  memcpy(c.middle, c.other, c.bytes);
  end_of_copy(c.middle, c.bytes);
}
