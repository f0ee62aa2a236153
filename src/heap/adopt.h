/* adopt.h - memory that sleeps in other arenas: of ended threads, or of threads that look away while their inbox grows. */
#ifndef HAK_ADOPT_H
#define HAK_ADOPT_H

#include "heap/heap.h"

/* An active arena for which so much waits seems to sleep: its thread looks away. */
#define BACKLOG_BYTES ((int64_t)(64 * KIB))

/** Takes over memory of the class from one arena that sleeps: batches that others sent to it, and their slabs, or slabs with room. False: none was
 * found. The caller holds arena->lock. Other arenas' locks are only tried, so two that adopt from each other cannot deadlock.
 * `far`: also from arenas of other nodes. */
bool adopt_slabs(struct arena *arena, unsigned size_class, bool far);

/** Before a new slab is made: puts back some blocks that nobody asks for, so that slabs become empty. What waits for the arena, of any class,
 * or what homes have whose threads have all ended. The caller holds arena->lock; others' are only tried. superslab_settle is to be called after it. */
void adopt_put_back(struct arena *arena);
/** The second half alone, for a thread that has sent much to such a home and finds no helper that would sort it. Locks
 * are only tried; superslab_settle is to be called after it. */
void adopt_put_back_left(const struct arena *arena);
/** For the thread whose end leaves the program with one, which has no helper, and may make no call for long: puts back all that waits and all that
 * ended threads left, if it is much. The caller holds no lock. */
void adopt_put_all_back(void);

#endif
