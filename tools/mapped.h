/* mapped.h - the files that a process has mapped. An upgrade deletes or replaces them while the process runs on.
 *
 * Files are opened by the root of the process, which may be in another mount namespace.
 */
#ifndef HAKMEM_MAPPED_H
#define HAKMEM_MAPPED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "target.h"

struct mapped {
  uint64_t start, end, offset, inode;
  char rights[5];
  const char *path; /* "": none; it ends in " (deleted)" where the file has no name any more */
};

/** Reads a line of /proc/PID/maps, in which `path` points from then on; false: it is none. */
bool mapped_parse(char *line, struct mapped *mapped);

/** Opens the file that is mapped: by the kernel's link to it, else by its name if that is the same file. -1: it cannot be
 * had so, and errno says why the kernel's link was refused. Of a core: as core_file_open finds it. */
int mapped_open(struct target target, const struct mapped *mapped);

/** The path without " (deleted)"; in `text`. */
const char *mapped_name(const char *path, char *text, size_t room);

enum { BUILD_ID_ROOM = 64 * 2 + 1 };
/** The build-id of the file that is mapped from `start` on, of its headers in memory; "": it has none, or cannot be read.
 * Returns `text`. */
char *mapped_build_id(struct target target, uint64_t start, char text[BUILD_ID_ROOM]);
/** Opens a file that has the build-id: what is at `path` now (NULL: nowhere), a copy, or one with debugging information. They are
 * looked for by the root of the process, and by ours; nobody's target is for ours alone. -1: there is none. */
int mapped_open_alike(struct target target, const char *path, const char *build_id);
/** The same of files that have all that was mapped. `*found`, where it is not NULL: its path, to be freed. */
int mapped_open_same(struct target target, const char *path, const char *build_id, char **found);
/** The same of files with debugging information alone, which packages install and debuginfod has fetched. */
int mapped_open_debug(struct target target, const char *build_id);

#endif
