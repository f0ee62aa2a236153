/* scenarios.h - scripts of hak_* calls, one for each tier and each job, to be run while system calls
 * fail. Each leaves its blocks alive in the world. */
#ifndef HAK_TEST_SCENARIOS_H
#define HAK_TEST_SCENARIOS_H

#include "world.h"

struct scenario {
  const char *name;
  void (*run)(struct world *world);
};

/** Ends with an entry whose name is NULL. */
extern const struct scenario scenarios[];

#endif
