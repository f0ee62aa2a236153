/* work.h - threads that allocate, resize and free in all tiers while something happens to their process, and what has to hold
 * in the end: every block was whole when it was freed, none is missing, and what the process had before is all that it has.
 *
 * Every block is a kit_block, which knows what it has to hold. A call may give NULL with ENOMEM between work_press() and
 * work_relax(), and at no other time.
 */
#ifndef HAK_CAMPAIGN_WORK_H
#define HAK_CAMPAIGN_WORK_H

#include "kit.h"

enum { WORK_THREADS_MOST = 16, WORK_SHARED = 256 };

/** Notes what the process has now, and starts so many threads (0: none, the caller works by itself). Ends the process
 * by a signal when it has not come to work_end() after `seconds`. */
void work_begin(unsigned threads, unsigned seconds);

/** So many calls, as the threads make them: on blocks of the caller and on those that all share. */
void work_turns(struct kit_rng *rng, unsigned calls);

/** From now on nobody asks the library to give memory back, until work_end(): it has to do so by itself. */
void work_never_purges(void);

/** From now on a call may give NULL with ENOMEM. */
void work_press(void);
/** From now on none may. */
void work_relax(void);

/** A block that counts, of any function; 0 where work_press() allows it. */
kit_block work_take(struct kit_rng *rng, size_t size);
/** Looks at its contents and frees it; 0 is allowed. */
void work_drop(kit_block block);
/** A shared slot: puts a block there, gives what was in it. */
kit_block work_exchange(size_t slot, kit_block block);
/** Looks at every shared block where it lies. Only where nobody else runs: in a child, or after work_stop(). */
void work_check(void);

/** Blocks of every tier, by every function, at once: nothing waits for a lock that nobody holds. */
void work_every_tier(struct kit_rng *rng);

/** A figure of the last line: "FIGURES name=value ...". */
void work_figure(const char *name, uint64_t value);

/** Waits for the threads; what is shared stays. */
void work_stop(void);

/** What has to have gone back to the system in the end. Not all can where the system refuses to take pages back. */
enum work_memory { WORK_ALL_BACK, WORK_PAGES_MAY_STAY };

/** Stops, frees all, looks whether anything is left, and prints the figures. */
void work_end(enum work_memory memory);

/** Milliseconds of a monotonic clock. */
uint64_t work_now_ms(void);

#endif
