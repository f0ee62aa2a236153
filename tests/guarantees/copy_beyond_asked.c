/* memcpy writes one byte more than was asked for; the block has it. */
#include "copied.h"

void run(void) {
  struct copied c = take_copied(tier.size);
  announce("memcpy", c.middle);
  memcpy(c.middle, c.other, c.bytes);
  end_of_copy(c.middle, c.bytes);
}
