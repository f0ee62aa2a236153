/* snapshot.h - what a process has in memory and why: its pages, as the kernel tells them, under hakmem's own list of what
 * each byte is. So the parts add up by page, not by what anybody believes.
 *
 * Every resident byte is in one part:
 *   live           of blocks that the program holds; what a block has more than was asked for is in it: of samples alone is known
 *                  what was asked for (sampled.h)
 *   slack          behind the last block of a slab, and behind the end of a Huge block
 *   caches         free and kept to be handed out fast: in bins, outgoing batches, inboxes and drained lists, Large blocks and free
 *                  slices that were not given back, the warm pool
 *   fragmentation  free blocks of slabs that are partly in use, and memory of slabs that was no block yet
 *   metadata       descriptors, heaps, the address map, and the library itself where it is a file of its own
 *   not ours       the rest of the process
 */
#ifndef HAKMEM_SNAPSHOT_H
#define HAKMEM_SNAPSHOT_H

#include "remote.h"
#include "resident.h"

enum { CLASSES_MOST = 256, COUNTERS_MOST = 64 };

/* What a process says of itself may have no end: reading it has. */
enum { SNAPSHOT_LATE_MS = 30000 };

struct class_figures {
  uint32_t size;
  uint64_t slabs, slab_bytes;
  uint64_t carved, free; /* bytes of blocks ever made, and of those that are free in their slabs */
  uint64_t kept;         /* blocks in bins, outgoing batches, inboxes and drained lists */
  /* Resident bytes. */
  double out; /* of blocks that are not in their slabs: live and kept */
  double live, caches, fragmentation, slack;
  /* Of a close look. Of `fragmentation`: free blocks on pages that others keep, on pages without any, and on such pages of huge ones
   * that are not worth breaking up. */
  double pinned, loose, huge;
  double pinning; /* blocks that are not free, on the pages of `pinned` */
  uint64_t pinned_pages;
  uint64_t counters[COUNTERS_MOST], supplies[COUNTERS_MOST]; /* as in observe/counters.h */
};

struct heap_figures {
  uint64_t address;
  uint64_t mark; /* address of a thread-local variable of its thread */
  int thread;    /* 0: not known, or it has ended */
  char name[20]; /* of the thread */
  bool parked,
      samples, /* of a thread that has ended; of none, it has the blocks that were sampled */
      common;  /* of none, its blocks are for all threads */
  uint64_t slab_bytes;                    /* of slabs it owns */
  uint64_t bins, outgoing, inbox, cached; /* bytes that it keeps */
  uint64_t free, given;                   /* bytes free in its slabs; of these, given back */
  bool named;                             /* of no thread, the program has made it */
  char own_name[64];
  /* Of such a heap: bytes and blocks that live in it; bytes of Large and Huge blocks; UINT64_MAX: no limit. */
  uint64_t live_blocks, live_bytes, peak_bytes, span_bytes, limit, refused;
};

/* Mappings of the program that have one name. */
struct mapping {
  char name[64];
  unsigned count;
  double bytes; /* resident, without what is ours */
};

struct snapshot {
  bool closely;               /* asked for: the figures of a close look, and mappings */
  struct mapping mappings[8]; /* the largest first */
  size_t mapping_count;
  uint64_t resident, swapped; /* as the kernel says */
  double live, slack, caches, fragmentation, metadata, not_ours;
  double warm_resident, slices_resident, spans_resident; /* parts of caches */
  double large_resident, huge_resident;                  /* parts of live */
  double unused_resident; /* of fragmentation: memory of slabs that was no block yet */
  bool partial;           /* it changed faster than it could be read: the parts need not add up */
  bool counted;     /* of the page that it keeps for us: sums alone, without classes and threads */
  double age;       /* of that, in seconds */
  bool late;        /* reading it was given up: see snapshot_is_late */
  uint64_t late_ms; /* when that is */
  bool by_page;     /* false: the kernel does not tell pages, each mapping counts evenly */

  uint64_t large_bytes, huge_bytes, huge_live, huge_usable, cached_bytes, given_bytes;
  uint64_t hole_bytes; /* of given_bytes, inside slabs */
  uint64_t in_use, in_bins, pinned,
      lost; /* as HAKMEM_STATS=json has them: bytes, resident or not */
  uint64_t superslabs, superslabs_peak, slices_in_use, dirty_slices, units_warm;
  uint64_t mapped_bytes, slab_bytes; /* of units; of slices in use */
  uint64_t units_mapped;
  uint64_t metadata_bytes; /* address space, without what is part of the program */

  struct class_figures classes[CLASSES_MOST];
  uint64_t huge_supplies[2][COUNTERS_MOST]; /* of Large and of Huge blocks */
  uint64_t huge_counters[2][COUNTERS_MOST];
  struct heap_figures *heaps;
  size_t heap_count, heaps_active, heaps_parked, heaps_of_samples, heaps_common, heaps_named;
  uint64_t os_mmap, os_munmap, os_mprotect, os_madvise, os_mremap, os_failed;
  uint64_t acquired, released, fallback_mmap, huge_alloc, huge_fail, decommit_disabled;
};

/** Reads it all; only where it returns REMOTE_THERE there is anything to free. Complains of nothing. */
enum remote_state snapshot_take(struct snapshot *snapshot, const struct remote *remote);
/** The same without the threads that heaps belong to. What is not read within `ms` milliseconds is left out: `late` and `partial` then say so. */
enum remote_state snapshot_take_within(struct snapshot *snapshot, const struct remote *remote,
                                       uint64_t ms);
/** The same with a close look: which free blocks lie on pages with live ones (the lists of free blocks are read), and what the largest
 * mappings of the program are. */
enum remote_state snapshot_take_closely(struct snapshot *snapshot, const struct remote *remote);
void snapshot_free(struct snapshot *snapshot);
/** How far the parts are from what is resident, in bytes. */
double snapshot_difference(const struct snapshot *snapshot);

/** Of the page that the process keeps; false: it is not there any more. */
bool snapshot_from_shared(struct snapshot *snapshot, const struct remote *remote);

/* --- the parts of it --------------------------------------------------------------------------------- */

/** Units: SuperSlabs, Huge blocks, the warm pool; also counts leaves of the map as metadata. Returns how many it has found. */
uint64_t snapshot_units(struct snapshot *snapshot, const struct remote *remote,
                        struct resident *resident);
/** Heaps, with what they keep of each class, and counters. False: no memory. */
bool snapshot_heaps(struct snapshot *snapshot, const struct remote *remote);
/** Which threads the heaps belong to. */
void snapshot_threads(struct snapshot *snapshot, const struct remote *remote);
/** Looks at the pages of a slab: `start` is its address, `slab` its descriptors, `weights` how much each of its pages is resident. */
void snapshot_pages(struct snapshot *snapshot, const struct remote *remote, size_t page,
                    struct copy slab, uint64_t start, uint64_t bytes, const double *weights);
/** The largest mappings of the program; heaps and their threads are known. */
void snapshot_mappings(struct snapshot *snapshot, const struct resident *resident);
/** Reading has taken so long that it ends here; asked in each loop whose end is the process' to say. */
bool snapshot_is_late(struct snapshot *snapshot);
/** Takes a range for metadata. */
void snapshot_metadata(struct snapshot *snapshot, struct resident *resident, uint64_t start,
                       uint64_t end);

#endif
