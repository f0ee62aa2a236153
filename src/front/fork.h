/* fork.h - keeping the library whole across fork(). */
#ifndef HAK_FORK_H
#define HAK_FORK_H

#include <stdbool.h>

/** Registers the handlers, at the first call. */
void fork_register_once(void);

/* heap.c: its part of the handlers. */
void heap_fork_prepare(void);
void heap_fork_release(bool in_child);

#endif
