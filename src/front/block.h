/* block.h - what a pointer is: tier, usable bytes, or what is wrong with it. For the paths that may
 * spend a division on being sure (realloc, malloc_usable_size, free off the fast path). */
#ifndef HAK_BLOCK_H
#define HAK_BLOCK_H

#include "slab/slab.h"

enum block_tier { BLOCK_SMALL, BLOCK_LARGE, BLOCK_HUGE };

struct block {
  const char *wrong; /* NULL, or one of REPORT_*: the other fields are not set then */
  enum block_tier tier;
  struct slab *slab; /* first descriptor of the span; NULL for Huge */
  struct superslab *superslab;
  size_t usable; /* bytes */
};

/** Never reads through `pointer`. Double free of small blocks is told in the hardened variant only. */
struct block block_find(const void *pointer);

/** True when the address lies in memory of ours that is handed out. */
bool block_is_ours(const void *pointer);

#endif
