/* limits.h - what a process may take before it is killed or refused memory, and how near it is to that. */
#ifndef HAKMEM_LIMITS_H
#define HAKMEM_LIMITS_H

#include <stdbool.h>
#include <stddef.h>

/* Its control group of memory, by a path through /proc/PID/root: so it is seen as the process sees it, also from another container. */
struct limit_place {
  char directory[1024]; /* empty: none */
  size_t
      mount_length; /* so much of it is where the tree is mounted: what lies above is not to be seen */
  bool first_version; /* cgroup v1 */
};

struct limit {
  double most, used; /* bytes; most 0: there is no limit */
};

struct limits {
  struct limit
      container; /* of the group that is nearest to its limit; idle pages of files are not used */
  struct limit address_space; /* RLIMIT_AS */
};

void limits_find(struct limit_place *place, int pid);
void limits_read(struct limits *limits, const struct limit_place *place, int pid);

#endif
