/* box.h - when a black box is due (HAKMEM_BLACKBOX, observe/box.h).
 *
 * The thread that takes memory looks each time that half of what was left is taken, as for the container's limit (limit.h), and calls the helper,
 * which writes. For each reason a box is due when the reason is there, and at each growth by a fifth beyond the last one for it. */
#ifndef HAK_BOX_H
#define HAK_BOX_H

#include "observe/box.h"
#include "policy/container.h"
#include "policy/options.h"

/* Writes a box of this process, which has `resident` bytes in memory and comes near to `limit`. What writes it lies above who has to call it; NULL
 * before it is loaded. Takes no lock, allocates nothing, keeps errno. 0, or the errno; EBUSY: another thread has been writing for a second. */
extern int (*box_write)(enum box_reason reason, size_t resident, size_t limit)
    __attribute__((visibility("hidden")));

static inline bool box_is_on(void) { return option_value(BLACKBOX) && box_write != NULL; }

/** If box_is_on(): bytes that the process may take until a box is due. 0: one was, and the helper was called; SIZE_MAX: none is in sight. Holds no lock but
 * purger_limit_lock. Keeps errno. */
size_t box_look(struct container *container);
/** The helper: writes what is due. */
void box_serve(void);
/** An allocation has failed: the thread writes a box itself, since the process may end before the helper comes. Holds no lock. Keeps errno. */
void box_write_failure(void);
/** A message ends the process: the thread writes one as well. */
void box_write_last(void);
/** One of the program's threads says that a box could not be written. */
void box_complain(void);

#endif
