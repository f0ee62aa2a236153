/* sampled.h - what samples tell of a snapshot: the most that ever lived, and what of the live blocks rounding has added.
 *
 * What lives by size of blocks is counted; samples tell which share of it was not asked for. Sizes of one class differ little, so that few samples
 * tell it well. Of a class without any it lies between nothing and what the next smaller class has less.
 */
#ifndef HAKMEM_SAMPLED_H
#define HAKMEM_SAMPLED_H

#include "peak.h"
#include "profile.h"
#include "snapshot.h"

/* Of the live blocks of one class; estimates. */
struct rounding {
  double bytes, error; /* resident; in 19 of 20 cases the truth is no farther away */
  double slots; /* of these, in slots of samples: no estimate, and no fault of the program's */
  double asked; /* for one block, on average; 0: no sample */
  uint64_t samples;
};

/* Behind those of slabs. */
enum { ROUNDING_LARGE = CLASSES_MOST, ROUNDING_HUGE, ROUNDINGS };

struct sampled {
  bool known;                    /* there are samples */
  bool ended;                    /* the process: times are before its last sample */
  struct peak peak;              /* by what was asked for */
  uint64_t samples;              /* of blocks that live */
  double rounding, error, asked; /* of live: rounding + asked */
  struct rounding classes[ROUNDINGS];
};

/** False: there is no memory here; then nothing of it is known. */
bool sampled_find(struct sampled *sampled, const struct snapshot *snapshot,
                  const struct profile *profile, const struct remote *remote);
/** The same with a profile of its own. NULL: it has no samples, or they cannot be read; to be freed. */
struct sampled *sampled_read(const struct snapshot *snapshot, const struct remote *remote);
/** What rounding adds to a live sample's block, in bytes; `size` is that of the class. */
double sampled_waste(const struct live_sample *sample, uint32_t size);

#endif
