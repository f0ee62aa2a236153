/* An overflow reaches a neighbour that lives. */
#include "overflow.h"

void run(void) {
  struct pair pair = take_neighbours();
  announce("free", NULL);
  overflow(pair);
  end_beside_live(pair, pair.high);
}
