/* Writing downwards from a Large or Huge block ends at a guard page before it reaches the block below. */
#include "overflow.h"

void run(void) {
  struct pair pair = take_neighbours();
  underflow(pair);
  if (!crowd_is_intact(&crowd_of_others, pair.low)) harm(OVERWRITTEN);
  survived();
}
