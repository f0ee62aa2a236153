/* Memory in front of a block is written to, and reaches a neighbour that lives. */
#include "overflow.h"

void run(void) {
  struct pair pair = take_neighbours();
  announce("free", NULL);
  underflow(pair);
  end_beside_live(pair, pair.low);
}
