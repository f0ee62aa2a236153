/* An overflow of a Large or Huge block ends at a guard page before it reaches the next block. */
#include "overflow.h"

void run(void) {
  struct pair pair = take_neighbours();
  overflow(pair);
  if (!crowd_is_intact(&crowd_of_others, pair.high)) harm(OVERWRITTEN);
  survived();
}
