/* explain.h - why memory of a process does not come back: reasons with figures, found in a snapshot, and how they are written. */
#ifndef HAKMEM_EXPLAIN_H
#define HAKMEM_EXPLAIN_H

#include <stdio.h>

#include "profile.h"
#include "sampled.h"
#include "snapshot.h"

/* What keeps memory. */
enum reason_kind {
  REASON_PINNED,  /* blocks in use keep pages full of free ones */
  REASON_LOOSE,   /* whole pages of free blocks, not given back so far */
  REASON_HUGE,    /* the same in huge pages that are not broken up for it */
  REASON_THREAD,  /* a thread keeps free blocks for its next calls */
  REASON_HEAP,    /* a heap that the program has made does */
  REASON_ENDED,   /* what threads that have ended have left */
  REASON_EMPTY,   /* warm pool, free slices, cached large blocks */
  REASON_UNUSED,  /* memory of slabs that was no block yet */
  REASON_SLACK,   /* behind blocks */
  REASON_METADATA /* descriptors of what was mapped once */
};

/* The helper thread, which gives back while the program sleeps. */
enum explain_helper {
  HELPER_THERE,
  HELPER_OFF,      /* HAKMEM_BACKGROUND=0 */
  HELPER_ALONE,    /* the program has one thread */
  HELPER_FILTERED, /* it has a filter of system calls */
  HELPER_LATER     /* it starts when enough waits, unless the system refuses threads */
};

enum { HOLDERS_MOST = 3, REASONS_MOST = 12, WASTES_MOST = 3, ADVICE_MOST = 8, SENTENCE = 400 };

/* A place that blocks of one size were allocated at. */
struct holder {
  const struct site *site;
  double share; /* of all live blocks of the size, by samples; of what rounding adds to them */
  uint64_t samples, youngest_ms, oldest_ms;
};

/* Those that hold most, of so many samples of live blocks of the size. */
struct holders {
  struct holder all[HOLDERS_MOST];
  unsigned count;
  uint64_t samples;
};

struct reason {
  enum reason_kind kind;
  double bytes;
  char sentence[SENTENCE]; /* what it is, in figures */
  char goes_when[SENTENCE];
  /* REASON_PINNED */
  uint32_t size;
  uint64_t pages, blocks;
  struct holders holders;
  int heap_thread;       /* REASON_THREAD; 0: not known */
  const char *heap_name; /* REASON_HEAP: the snapshot's; empty: it has none */
};

/* A size of blocks to which rounding adds much. */
struct waste {
  uint32_t size; /* 0: Large blocks */
  struct rounding rounding;
  struct holders holders;
};

/* An option that would change something. */
struct advice {
  char option[40];
  double bytes;
  char sentence[SENTENCE];
};

/* What came of --trim. */
struct trim {
  bool done;
  unsigned seconds;          /* that it was waited for at most */
  unsigned threads, emptied; /* that were asked; of these, emptied their caches */
  uint64_t after;            /* bytes resident then */
  char equation[512];        /* how the parts add up then */
};

struct explanation {
  const struct snapshot *snapshot;
  const struct profile *profile;       /* NULL: it has no sampler */
  struct reason reasons[REASONS_MOST]; /* the largest first */
  unsigned reason_count;
  const struct sampled *sampled;    /* NULL: there are no samples */
  struct waste wastes[WASTES_MOST]; /* the largest first */
  unsigned waste_count;
  double more; /* bytes of reasons that are not worth a sentence */
  struct advice advice[ADVICE_MOST];
  unsigned advice_count;
  enum explain_helper helper;
  double trim;                /* what a trim would give, about */
  const struct trim *trimmed; /* NULL: none was asked for */
};

/** Less than this is not worth a sentence. */
double explain_worth(const struct snapshot *snapshot);
/** Finds the reasons, and what would help. False: out of memory. */
bool explain_find(struct explanation *explanation, const struct snapshot *snapshot,
                  const struct profile *profile, const struct remote *remote);
/* Of whose samples holders are told. */
struct holders_of {
  unsigned size_class;
  uint32_t rounded_to; /* by what this size has more than they asked for; 0: by their bytes */
  uint64_t most;       /* not those that are larger; 0: all */
};
/** Who allocated these live blocks, as far as samples tell. False: out of memory. */
bool explain_holders(struct holders *holders, const struct holders_of *of,
                     const struct profile *profile);
/** Finds the sizes to which rounding adds most, and who asks for them. False: out of memory. */
bool explain_rounding(struct explanation *explanation, const struct sampled *sampled,
                      const struct remote *remote);

/** Asks the process to give back what it can, and waits up to `seconds` for that. 0, or an exit code after a complaint. */
int explain_trim(struct trim *trim, const struct remote *remote, unsigned seconds);

struct symbols;
void explain_text(const struct explanation *explanation, const struct remote *remote,
                  struct symbols *symbols, FILE *out);
void explain_json(const struct explanation *explanation, const struct remote *remote,
                  struct symbols *symbols, FILE *out);

#endif
