/* unit_move.h - long runs of units out of pages that the warm pool has in short ones. */
#ifndef HAK_UNIT_MOVE_H
#define HAK_UNIT_MOVE_H

#include "superslab/unit_os.h"

enum unit_move {
  UNIT_MOVED,
  UNIT_STAYS,     /* refused; both are mapped, what is at `to` reads as zeros or as before */
  UNIT_PLACE_LOST /* refused, and nothing is mapped at `to` any more */
};
/** Moves the pages of one unit to the place of another, whose own are lost. */
enum unit_move unit_move(char *from, char *to);
/** Units of new address space, of which the first `empty` are for pages to be moved into and have none, nor have the last `bare`. The others get
 * pages of the warm pool as far as there are, and so need not be zero. With `empty` > 0 none are explicit huge pages. */
struct unit_run unit_reserve(size_t units, size_t empty, size_t bare);
/** Adds `count` units right behind a run of ours on `node`, all but the last `bare` with pages of the warm pool as far as there are; without
 * bare ones also those that lie there in the pool. False when that address range is taken. */
bool unit_extend(char *end, size_t count, size_t bare, unsigned node);

/** Makes a run of units `more` units longer, at another place that its pages move to. Of address space it needs `more` and one unit for a
 * moment, where others need room for the block twice: a limit (RLIMIT_AS, RLIMIT_DATA) may have no more. The first `used` bytes are kept.
 * No unit has guards, and the map knows none of them. NULL: all is as it was, as where the run is more than one mapping. */
char *unit_move_run(char *base, size_t units, size_t more, size_t used);

/* --- for unit.c alone ----------------------------------------------------------------------------------- */

/** Takes guards away until `units` units without them are in the pool that were not before, from runs of at least `least` units. What lies in
 * front of each block has no pages, and goes. False: there were no such runs. */
bool unit_open_fenced(size_t units, size_t least);
/** A run of new address space. Between its first `empty` units and its last `bare` ones it gets as many pages of the pool as there are. Pages that
 * are moved in are small ones, and would take the place of explicit huge pages. */
struct unit_run unit_map_filled(size_t units, size_t alignment, size_t empty, size_t bare);

#endif
