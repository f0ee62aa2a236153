/* release.h - memory that nobody uses goes back to the system.
 *
 * The purger looks at everything a process holds: slabs with free blocks (page by page, slab/holes.h), free
 * slices of SuperSlabs, cached Large blocks, parked heaps, inboxes of threads at rest, the warm pool.
 * What was the same for IDLE_SCANS scans, which are half of HAKMEM_WARM_POOL_DECAY_MS apart, goes back.
 *
 * It runs in a helper thread (background.c), which a program has as long as it has a second thread of its own; enough free
 * memory calls it, and it sleeps when all that is left is clean.
 * A program without threads of its own, or with a seccomp filter, has none. There the program's own calls
 * do the work, a bounded part at each beat (beat.h), from the moment at which the helper would have been
 * called until little is left.
 * malloc_trim() and hak_purge() run it in the calling thread, without waiting for anything to age.
 *
 * Locks. `purger_scan_lock`: one purger at a time; held for a whole scan. An allocating thread waits for it
 * only when memory has run out and all that can be has to go back (release_purge); a beat tries. `purger_batch_lock`: held while free blocks of
 * some slabs are with the purger, so that a fork finds every slab whole; first in the order of locks.
 * Heap locks are held for what takes a millisecond at the very most (512 blocks put back, 32 slabs scanned), and are given
 * to who waits before they are taken again (lock_release_in_turn).
 */
#ifndef HAK_RELEASE_H
#define HAK_RELEASE_H

#include "heap/heap.h"

/* Scans that memory has to stay untouched: two, half the decay time apart. */
enum { IDLE_SCANS = 2 };

/** One scan of everything, by the helper; what has not changed for `idle_scans` of them goes, with 0 the warm pool as
 * well. Broken off when `goes_on` says no. Returns the bytes that are still unexpired, SIZE_MAX: it was broken off, so nobody knows. */
size_t release_scan(unsigned idle_scans, bool (*goes_on)(void));
/** Empties the calling thread's caches: into its slabs, to other heaps, to the SuperSlabs. */
void release_own_caches(void);
/** After a refusal: release_purge. False: nothing was given back, for it could never be had again, or this call comes from what the thread tells of
 * pages that go: it may hold locks. */
bool release_for_refused(void);
/** Gives back all that can be, in this thread: own caches, parked heaps, inboxes, the warm pool. Returns bytes. */
size_t release_purge(void);

#endif
