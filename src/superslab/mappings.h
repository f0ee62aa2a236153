/* mappings.h - how many mappings our units are to the kernel, and units that stay mapped though nobody uses them.
 *
 * The kernel allows a process 65,530 mappings (vm.max_map_count); beyond them it refuses memory, and to give any back.
 * A unit that is unmapped between two others makes one more, one in which alone huge pages are asked for two more. So of each
 * unit is known how it is mapped, and from that how many mappings there are: stretches of units that are mapped alike. What
 * would make more than MAPPINGS_MOST is not done: a unit then gives its pages back and stays mapped, is `kept`, until units are
 * needed or it can be unmapped (docs/decisions/0032).
 *
 * The kernel may count more: what was touched apart it does not join, and guards may be mappings (guard_pages.h). Hence a
 * quarter of what it allows.
 *
 * Units whose leaf of the address map could not be had count as unmapped. All functions take unit_lock, none makes a system
 * call: how a unit is mapped is written before the call that unmaps it, and after the one that maps it, when it is nobody
 * else's. In the child of a fork that has lost the lock all stays as it is: each byte is whole, and the sums are close.
 */
#ifndef HAK_MAPPINGS_H
#define HAK_MAPPINGS_H

#include "superslab/map.h"

#define MAPPINGS_MOST ((size_t)16384)
/* Where the kernel refuses memory: half of what it allows. What is kept may be what is missing. */
#define MAPPINGS_MOST_IN_NEED (2 * MAPPINGS_MOST)

/** From now on the units are mapped like this. */
void mappings_set(const char *base, size_t units, enum mapping mapping);
/** The same if there are not too many mappings then, or no more than now. False: nothing has changed. */
bool mappings_change(const char *base, size_t units, enum mapping mapping);
/** Are huge pages asked for in any of the units? */
bool mappings_any_huge(const char *base, size_t units);
/** Do a few more mappings not matter? */
bool mappings_have_room(void);
/** Mappings that our units are. */
size_t mappings_count(void);

/** Units are to be unmapped, and with them the kept ones right beside them, by which they become more. As mappings_change: false, and nothing has
 * changed. So kept units always have others in use on both sides, and none is left when these have gone. */
bool mappings_leave(char **base, size_t *units);

/** Keeps units that are mapped and hold no pages. False: not possible. */
bool mappings_keep(char *base, size_t units);
/** Hands out `units` kept units in a row; `*huge`: huge pages were asked for in some. NULL: there are none. */
char *mappings_take(size_t units, bool *huge);
/** Kept units that may be unmapped now, out of the count of mappings already: the first stretch of them behind `*cursor` (NULL
 * to start), which moves on. `most`: that makes no more mappings than so many. False: there is none. */
bool mappings_take_to_unmap(char **cursor, char **base, size_t *units, size_t most);
/** How many are kept; relaxed: a hint. */
size_t mappings_kept(void);

#endif
