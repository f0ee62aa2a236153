/* fork.h - keeping the library whole across fork(). */
#ifndef HAK_FORK_H
#define HAK_FORK_H

#include "os/lock.h"

/** Registers the handlers, if that is not done yet: before this thread takes any lock of the library, which a fork would
 * copy. */
void fork_register(void);

#endif
