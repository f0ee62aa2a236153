/* unit.h - runs of units, from the warm pool or the OS. */
#ifndef HAK_UNIT_H
#define HAK_UNIT_H

#include "superslab/unit_move.h"
#include "superslab/unit_os.h"

/** `units` units in a row, aligned to `alignment` bytes (a power of two, at least UNIT_BYTES), from
 * the warm pool or the OS. For one unit no memory is given back meanwhile, which may take long: the caller may hold a heap's lock.
 * What has to go from the pool waits for unit_settle. Units of another node come where the OS refuses. */
struct unit_run unit_acquire(size_t units, size_t alignment);
/** The same with `ahead` more units in front of the aligned place. Nothing is put in them: `used` counts from behind them on. Nor in the
 * last `bare` ones, as far as they are new. */
struct unit_run unit_acquire_behind(size_t ahead, size_t units, size_t alignment, size_t bare);
/** Gives back what was too old or too much when this thread took units. The caller holds no lock. */
void unit_settle(void);
/** After a refusal: would such a run fit if all units of ours were given back? Neither the limit of the address space
 * nor a strict limit of what is committed is asked for by name: the kernel is asked for what would be missing then. */
bool unit_could_fit(size_t units, size_t alignment);
/** Takes them back into the warm pool or gives them to the OS. Never fails, keeps errno. `huge_pages` and `node`: as they came. */
void unit_release(char *base, size_t units, bool huge_pages, unsigned node);
/** Gives them to the OS past the warm pool. */
void unit_give_up(char *base, size_t units, bool huge_pages);
/** Gives the whole warm pool to the OS; returns the bytes. */
size_t unit_trim(void);
/** Puts resident units into the warm pool, at the program's start; returns how many. */
size_t unit_prewarm(size_t units);
/** Gives back what is too old; returns the bytes that are still to age. */
size_t unit_age(void);

struct unit_stats {
  uint64_t bytes_mapped, units_warm, acquired, released, fallback_mmap, huge_alloc, huge_fail;
  uint64_t decommit_disabled;
};
void unit_stats_get(struct unit_stats *stats);

#endif
