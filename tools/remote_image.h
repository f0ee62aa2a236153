/* remote_image.h - a symbol of a library as it lies in a process' memory, for where its file cannot be read: an upgrade has
 * replaced it, or it lies where this tool may not look.
 */
#ifndef HAKMEM_REMOTE_IMAGE_H
#define HAKMEM_REMOTE_IMAGE_H

#include <stdint.h>

#include "target.h"

struct image {
  uint64_t symbol; /* its address; 0: the library has none of that name */
  uint64_t end;    /* of the library's memory */
};

/** Looks for a symbol that the library whose first byte lies at `start` exports. All 0 where it makes no sense. */
struct image remote_image_find(struct target target, uint64_t start, const char *name);

#endif
