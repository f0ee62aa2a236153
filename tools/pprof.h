/* pprof.h - profiles in the format of pprof (profile.proto, gzip'd), which many programs read. */
#ifndef HAKMEM_PPROF_H
#define HAKMEM_PPROF_H

#include "places.h"
#include "profile.h"

/* What the values of a place are called there, in the order of enum place_value. */
#define PPROF_TYPES "alloc_objects", "alloc_space", "inuse_objects", "inuse_space"

/** False: it was built without libprotobuf-c and zlib, and knows no pprof format. */
bool pprof_is_built(void);
/** Writes what was read of a process that is still there, with names; false after a complaint. A reader shows `shown` of it unless
 * it is asked for another. */
bool pprof_write(const struct profile *profile, const struct remote *remote, enum place_value shown,
                 int fd);
/** The same of places that have their names. */
bool pprof_write_places(const struct places *places, enum place_value shown, int fd);
/** Reads one that was saved; NULL after a complaint. */
struct places *pprof_read(const char *path);

#endif
