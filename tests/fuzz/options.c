/* options.c - the sets of options that inputs are run with: those that take other paths through the library.
 *
 * The library reads its options once, so a set needs a process of its own: see process.c.
 */
#include "actions.h"

#include <stdlib.h>
#include <string.h>

static const char *const sets[] = {
    "",
    "HAKMEM_PROFILE=speed HAKMEM_PREWARM_MB=1",
    "HAKMEM_PROFILE=lean",
    "HAKMEM_WARM_POOL_MB=0",
    "HAKMEM_SS_MEM_LEAN_DECOMMIT=FREE HAKMEM_WARM_POOL_DECAY_MS=1",
    "HAKMEM_BACKGROUND=1 HAKMEM_WARM_POOL_DECAY_MS=1",
    "HAKMEM_BACKGROUND=0 HAKMEM_WARM_POOL_DECAY_MS=1",
    "HAKMEM_SS_HUGEPAGE=explicit",
    "HAKMEM_SS_HUGEPAGE=off HAKMEM_SS_MEM_LEAN_TARGET_MB=8",
    "HAKMEM_PROF_RATE=1024 HAKMEM_PROF_MOST=0",
    "HAKMEM_PROF_RATE=4096 HAKMEM_PROF_MOST=0 HAKMEM_GUARD_SAMPLE=1",
    "HAKMEM_PROF_RATE=0 HAKMEM_BINS_KB=1",
    "HAKMEM_TINY_HEAP_STATS=1 HAKMEM_LEARN=1",
    "HAKMEM_SS_MEM_LEAN=1 HAKMEM_SS_MEM_LEAN_DECOMMIT=OFF HAKMEM_BINS_KB=64",
};

const char *options_set(const struct header *header) {
  const char *set = sets[header->options % (sizeof sets / sizeof *sets)];
  char text[128];
  memcpy(text, set, strlen(set) + 1);
  char *rest = text;
  for (char *word; (word = strtok_r(rest, " ", &rest)) != NULL;) {
    char *value = strchr(word, '=');
    *value++ = 0;
    setenv(word, value, 1);
  }
  return set;
}
