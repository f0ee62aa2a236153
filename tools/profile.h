/* profile.h - what the sampler of a process has kept (observe/samples.h), read from outside. */
#ifndef HAKMEM_PROFILE_H
#define HAKMEM_PROFILE_H

#include "observe/samples.h"
#include "remote.h"

/* A stack, and what was allocated there. Bytes and blocks are estimates of all, by the samples. */
struct site {
  uint32_t place; /* names it within its process */
  unsigned depth;
  const uint64_t *addresses; /* in profile.words */
  double live_bytes, live_blocks, allocated_bytes, allocated_blocks;
  uint64_t live_samples, allocated_samples;
  uint64_t oldest_ms; /* age of the oldest live sample */
};

struct profile {
  int64_t rate; /* bytes; -1: off; 0: nobody has allocated so far */
  bool lost;    /* a fork's child that samples no more */
  uint64_t samples, dropped, live_samples;
  uint64_t age_ms; /* since the first allocation */
  struct site *sites;
  size_t site_count;
  double live_bytes, allocated_bytes;
  uint64_t *words; /* copies of the stacks */
};

/** Reads it; 0, or an exit code after a complaint. */
int profile_read(struct profile *profile, const struct remote *remote);
/** The site of a stack; NULL: it has none. */
struct site *profile_site(const struct profile *profile, uint32_t place);
void profile_free(struct profile *profile);
/** Makes another rate count; false: its memory cannot be written. */
bool profile_set_rate(const struct remote *remote, int64_t rate);

#endif
