/* shared_tick.h - when the page of HAKMEM_SHM=1 is written (observe/shared.h). */
#ifndef HAK_SHARED_TICK_H
#define HAK_SHARED_TICK_H

#include <stddef.h>

#include "policy/options.h"

/* What writes it lies above who has to call it. NULL before it is loaded. */
extern void (*shared_write)(bool may_make) __attribute__((visibility("hidden")));

/** At the end of a slow path: writes if the time has come. The caller holds no lock. `may_make`: also makes it, and complains
 * where that fails: not in the helper, which has descriptors of its own. */
static inline void shared_tick(bool may_make) {
  if (__builtin_expect(option_value(SHM) && shared_write != NULL, 0)) shared_write(may_make);
}

#endif
