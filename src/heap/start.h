/* start.h - the process' first use of the allocator. Beside heap_start and heap_calls_libc, which heap.h shows to all. */
#ifndef HAK_START_H
#define HAK_START_H

#include "heap/heap.h"

/* heap.c, for start.c: */

/** Makes the key whose destructor parks a thread's heap. Calls a function of libc's, which may be another's that allocates. */
void heap_make_key(void);
/** The calling thread may have got a heap before there was a key: it is parked at its end as well. */
void heap_park_at_end(void);

/* For fork.c: */
void start_each_lock(lock_visit *visit, void *argument);
void start_fork_child(void);

#endif
