/* world.h - what lies around the sources that a case runs: units with blocks, and plain stand-ins for the rooms below.
 *
 * A program links the sources whose steps it explores; what these call and the case does not need is dropped by the linker, the
 * rest stands in world.c (weak: a case may have its own). */
#ifndef SCHEDULE_WORLD_H
#define SCHEDULE_WORLD_H

#include "schedule.h"
#include "superslab/superslab.h"

enum { WORLD_UNITS = 4 };

/* Units of memory for blocks: places only, nothing is resident that no case writes to. */
extern char world_units[WORLD_UNITS][UNIT_BYTES];
extern struct superslab world_superslab;

/** The first unit is entered in the map, once, with `world_superslab`, all of whose slices are of the class. */
void world_enter_unit(unsigned size_class);

/** From now on meta_allocate gives the same zeroed memory again. */
void world_reset_metadata(void);

#endif
