/* probe.h - a child process on the library that says where its allocation functions come from. */
#ifndef HAKMEM_PROBE_H
#define HAKMEM_PROBE_H

#include <stdbool.h>

#include "library.h"

#define PROBE_ARGUMENT "--probe" /* how the tool starts itself as that child */

struct probe {
  char version[32]; /* "" when the library is not in the child */
  char variant[32];
  char foreign[512]; /* allocation functions that come from elsewhere: " NAME (FILE)"... */
  bool owns;         /* a block that malloc returned belongs to the library */
  int exit_status;   /* as waitpid gives it */
};

/** Starts the child and fills `probe`. Its stderr is ours, so that the library's own messages are
 * seen; `quiet` drops them. Complains and returns false when it cannot be started. */
bool probe_run(const struct library *library, bool quiet, struct probe *probe);

#endif
