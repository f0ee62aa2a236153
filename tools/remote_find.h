/* remote_find.h - in which of its files a process has hakmem, and where that lies in its memory. */
#ifndef HAKMEM_REMOTE_FIND_H
#define HAKMEM_REMOTE_FIND_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "target.h"

struct place {
  char path[PATH_MAX];
  bool is_library;     /* a file of hakmem alone */
  uint64_t directory;  /* address of struct directory */
  uint64_t start, end; /* of the file's memory */
};

enum { PLACES_MOST = 4 };

struct found {
  unsigned count;
  struct place places[PLACES_MOST];
  bool refused;         /* a file that cannot be opened is not to be read in memory, either */
  char older[PATH_MAX]; /* a file of hakmem without a directory; "": there is none */
  char missing
      [PATH_MAX]; /* of a core: a file that hakmem may be in, and that is not to be had; "": none */
  char allocator[64]; /* for messages: which other one the process seems to have */
};

/** False when the process' mappings cannot be read. What is not found by `late_ms`, of now_ms(), is left out; 0: no limit. */
bool remote_find(struct target target, struct found *found, uint64_t late_ms);

#endif
