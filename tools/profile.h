/* profile.h - what the sampler of a process has kept (observe/samples.h), read from outside. */
#ifndef HAKMEM_PROFILE_H
#define HAKMEM_PROFILE_H

#include "observe/samples.h"
#include "remote.h"

/* What is known by the samples of a stack; all but the first of those that live. */
enum { QUARTERS = 4 };
struct site_samples {
  uint64_t allocated, live;
  uint64_t oldest_ms, youngest_ms; /* ages */
  double heaviest;                 /* bytes that one of them stands for */
  double born
      [QUARTERS]; /* bytes of each quarter of the time since the first sample, the oldest first */
};

/* What lived there when the samples of all stacks stood for most live bytes. */
struct site_peak {
  double bytes, blocks;
  uint64_t samples;
};

/* A stack, and what was allocated there. Bytes and blocks are estimates of all, by the samples. */
struct site {
  uint32_t place; /* names it within its process */
  unsigned depth;
  const uint64_t *addresses; /* in profile.words */
  double live_bytes, live_blocks, allocated_bytes, allocated_blocks;
  struct site_samples samples;
  struct site_peak peak;
};

/* A live sample. */
struct live_sample {
  uint32_t place, size_class; /* as in observe/samples.h */
  uint64_t weight, age_ms;
  uint64_t size;    /* as asked for */
  uint64_t address; /* of the block */
  uint64_t heap;    /* of the thread that allocated it; 0: none */
};

struct profile {
  int64_t rate; /* bytes; -1: off; 0: nobody has allocated so far */
  bool lost;    /* a fork's child that samples no more */
  uint64_t samples, dropped, live_samples;
  double
      live_rate; /* at which those that live were taken, on average: HAKMEM_PROF_MOST thins them */
  uint64_t now_ms;             /* by the samples' clock */
  uint64_t age_ms;             /* since the first sample */
  uint64_t read_ms, growth_ms; /* when it was read; the time since the one that was taken off */
  struct site *sites;
  size_t site_count;
  double live_bytes, allocated_bytes;
  double peak_bytes;              /* the most that ever lived; 0: no sample was taken */
  uint64_t peak_samples, peak_ms; /* how many they were, and how long ago that was */
  uint64_t *words;                /* copies of the stacks */
  struct live_sample *live;
  size_t live_count, live_room;
};

/** Reads it; NULL, or what is in the way. */
const char *profile_look(struct profile *profile, const struct remote *remote);
/** The same; 0, or an exit code after a complaint. */
int profile_read(struct profile *profile, const struct remote *remote);
/** Makes it one of the peak: what lives is what lived then. Ages, sizes and threads of live samples are not known of it. */
void profile_at_peak(struct profile *profile);
/** Bytes allocated since the start, estimated; the live samples are not read. False: there is no sampler, or it may not be read. */
bool profile_allocated(const struct remote *remote, double *bytes);
/** Calls each(context, records, count) for the records, a chunk at a time, live and freed ones. False: they cannot be read. */
bool profile_each_chunk(const struct remote *remote,
                        void (*each)(void *context, const struct sample_record *records,
                                     uint32_t count),
                        void *context);
/** The site of a stack; NULL: it has none. */
struct site *profile_site(const struct profile *profile, uint32_t place);
/** Takes off what an earlier one of the same process has. */
void profile_subtract(struct profile *profile, const struct profile *before);
void profile_free(struct profile *profile);
/** Makes another rate count; false: its memory cannot be written. */
bool profile_set_rate(const struct remote *remote, int64_t rate);

#endif
