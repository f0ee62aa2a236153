/* memcpy reads one byte behind its block: what lies there is sent to whoever chose the length. */
#include "copied.h"

void run(void) {
  struct copied c = take_copied(tier.full);
  memset(c.middle, 'A', tier.full - tier.full / 2);
  memset(c.other, 'B', c.bytes);
  announce("memcpy", c.middle);
  memcpy(c.other, c.middle, c.bytes);
  end_of_copy(c.other, c.bytes);
}
