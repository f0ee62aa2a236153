/* fork.h - keeping the library whole across fork(). */
#ifndef HAK_FORK_H
#define HAK_FORK_H

#include <stdbool.h>

/** Registers the handlers; called once, by the second heap. */
void fork_register(void);

/* heap.c: its part of the handlers. */
void heap_fork_prepare(void);
void heap_fork_release(bool in_child);

#endif
