/* where.h - what an address in a process or a core is: what the parts of hakmem where share. */
#ifndef HAKMEM_WHERE_H
#define HAKMEM_WHERE_H

#include <stdio.h>

#include "mapped.h"
#include "profile.h"
#include "snapshot.h"
#include "symbols.h"

enum where_kind {
  WHERE_NOTHING,  /* nothing is mapped there */
  WHERE_MAPPING,  /* the program's own, or hakmem's tables */
  WHERE_SLAB,     /* a block of a size class, or behind the last one of a slab */
  WHERE_LARGE,    /* a block of whole slices */
  WHERE_HUGE,     /* a block of whole units */
  WHERE_CACHED,   /* a freed Large block that is kept */
  WHERE_FREE,     /* slices that nobody uses */
  WHERE_POOL,     /* units that nobody uses */
  WHERE_GUARDED,  /* a guarded sample, or beside one */
  WHERE_METADATA, /* hakmem's own */
};

/* What is known of a place for a block. */
enum block_state {
  BLOCK_LIVE,
  BLOCK_IN_SLAB, /* free, in the list of its slab */
  BLOCK_IN_HOLE, /* free, its page was given back */
  BLOCK_IN_BIN,  /* free, in a thread's bin */
  BLOCK_UNSENT,  /* free, in a thread's batch for another arena */
  BLOCK_SENT,    /* free, in an arena's inbox or drained list */
  BLOCK_FREE,    /* free; where is not known (hardened) */
  BLOCK_NEVER,   /* no block so far */
  BLOCK_NONE     /* there is no such place in the slab */
};

struct block {
  enum block_state state;
  const struct heap_figures *heap; /* of bins and lists; NULL: none, or not known */
  uint32_t place, places;          /* in its bin: 1 is the one that was freed last; 0: not known */
};

/* Of the sampler. */
struct where_sample {
  bool found, freed;
  uint64_t address, size, age_ms; /* freed: since when */
  const struct site *site;        /* NULL: not known */
};

/* What happened to a guarded sample. */
struct where_event {
  int thread; /* 0: nothing */
  unsigned depth;
  uint64_t addresses[64];
};

struct where {
  uint64_t address;
  enum where_kind kind;
  uint64_t start, bytes; /* of the block, or of what it is in */
  uint64_t slab, slab_bytes;
  uint32_t size, size_class, number, count; /* of the block in its slab */
  bool in_slack;                            /* behind the last block */
  bool sampled;                             /* the slab is the sampler's */
  struct block block, before, behind;
  uint64_t
      broken; /* a free block in which the list of a slab or a bin ends too soon; 0: none was seen */
  const struct heap_figures *owner; /* whose slab it is; NULL: not known */
  struct where_sample sample, sample_before, sample_behind;
  struct where_event allocated, freed; /* of a guarded sample */
  bool live;                           /* of a guarded sample, Large and Huge blocks */
  /* WHERE_MAPPING */
  struct mapped mapping;
  char name[PATH_MAX];
  int stack_of; /* number of the thread; 0: it is none */
  bool kept;    /* of a core: its memory is there */
};

/* What all addresses of a process are looked up with. */
struct where_reader {
  const struct remote *remote;
  struct snapshot *heaps;  /* only these of it */
  struct profile *profile; /* NULL: it has no samples */
  uint64_t unit_bytes, slice_bytes;
  size_t page;
};

/** Reads what all look-ups need; false: out of memory. Then where_close. */
bool where_open(struct where_reader *reader, const struct remote *remote);
void where_close(struct where_reader *reader);

/** Finds out what is there. False: out of memory. */
bool where_find(struct where *where, const struct where_reader *reader, uint64_t address);

/** In a slab: what is known of the block that it is in, and of those beside it. `slab` are its descriptors. False: out of memory. */
bool where_blocks(struct where *where, const struct where_reader *reader, struct copy slab);
/** Fills in samples, and who allocated them. */
void where_samples(struct where *where, const struct where_reader *reader);
/** A guarded sample, or beside one; false: it is none. */
bool where_guarded(struct where *where, const struct where_reader *reader);
/** What is mapped there. */
void where_mapping(struct where *where, const struct where_reader *reader);

void where_text(const struct where *where, const struct where_reader *reader,
                struct symbols *symbols, FILE *out);
struct json;
void where_json(const struct where *where, const struct where_reader *reader,
                struct symbols *symbols, struct json *json);

#endif
