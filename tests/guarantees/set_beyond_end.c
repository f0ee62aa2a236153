/* memset writes one byte behind its block. */
#include "copied.h"

void run(void) {
  struct copied c = take_copied(tier.full);
  announce("memset", c.middle);
  memset(c.middle, 'A', c.bytes);
  end_of_copy(c.middle, c.bytes);
}
