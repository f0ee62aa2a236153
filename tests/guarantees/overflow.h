/* overflow.h - memory is written to beyond an end of a block, up to the next one, byte after byte as a loop does. */
#ifndef OVERFLOW_H
#define OVERFLOW_H

#include "guarantee.h"

enum { REACH = 8 }; /* bytes of the neighbour that are overwritten */

struct pair {
  unsigned low, high;
};

static inline struct pair take_neighbours(void) {
  struct pair pair = {0, 0};
  crowd_take(&crowd_of_others, tier.full, tier.many);
  (void)crowd_nearest(&crowd_of_others, &pair.low, &pair.high);
  return pair;
}

/* From the lower block into the higher one. */
static inline void overflow(struct pair pair) {
  unsigned char *block = crowd_of_others.block[pair.low], *next = crowd_of_others.block[pair.high];
  if (twin) write_upwards(block, block + tier.full);
  else write_upwards(block + tier.full, next + REACH);
}

/* From the higher block into the lower one. */
static inline void underflow(struct pair pair) {
  unsigned char *block = crowd_of_others.block[pair.high], *below = crowd_of_others.block[pair.low];
  if (twin) write_downwards(block + tier.full, block);
  else write_downwards(block, below + tier.full - REACH);
}

/* The neighbour lives: has it lost data? Both blocks are freed all the same, as that is when a canary is looked at. */
static inline void end_beside_live(struct pair pair, unsigned neighbour) {
  bool intact = crowd_is_intact(&crowd_of_others, neighbour);
  free(crowd_of_others.block[pair.low]);
  free(crowd_of_others.block[pair.high]);
  if (!intact) harm(OVERWRITTEN);
  survived();
}

#endif
