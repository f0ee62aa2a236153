/* strcpy writes a string's last zero behind its block. */
#include "copied.h"

void run(void) {
  struct copied c = take_copied(tier.full);
  c.other[c.bytes - 1] = 0;
  announce("strcpy", c.middle);
  strcpy((char *)c.middle, (const char *)opaque(c.other));
  end_of_copy(c.middle, c.bytes - 1);
}
