/* target.h - whose memory, mappings and files a tool reads: a living process's, or those that a core file has kept. */
#ifndef HAKMEM_TARGET_H
#define HAKMEM_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct core;

struct target {
  int pid; /* of a process or one of its threads; of a core: as it was; 0 without a core: nobody's */
  struct core *core; /* NULL: it lives */
};

/** Copies `bytes` from `address`; false where they cannot be read, and errno says why: EFAULT of a core. */
bool target_read(struct target target, uint64_t address, void *to, size_t bytes);
/** The same of what a core itself has, without the files that were mapped. */
bool target_read_kept(struct target target, uint64_t address, void *to, size_t bytes);
/** Lines as /proc/PID/maps has them; NULL: they cannot be read. */
FILE *target_maps(struct target target);

#endif
