/* perf_map.h - names of functions that were made at run time, from the file that their makers write for perf.
 *
 * /tmp/perf-PID.map has a line for each: address and size in hexadecimal, and a name. CPython writes it (python3 -X perf, from 3.12
 * on), Node (--perf-basic-prof), Java (jcmd PID Compiler.perfmap) and others. Another one may have left it, or made it up.
 */
#ifndef HAKMEM_PERF_MAP_H
#define HAKMEM_PERF_MAP_H

#include <stdint.h>

#include "target.h"

struct perf_map;

/* A function; the texts last until the next call. */
struct perf_name {
  const char *function;
  const char *file; /* NULL: not told */
  int line;         /* 0: not told */
};

/** The map of a process, by its own root and its own number; of a core: below --root. NULL: there is none, or it is not to be trusted:
 * of another user, or written before the process began. */
struct perf_map *perf_map_open(struct target target);
/** The function that was made last at this address. False: none was. */
bool perf_map_find(struct perf_map *map, uint64_t address, struct perf_name *name);
void perf_map_close(struct perf_map *map);

#endif
