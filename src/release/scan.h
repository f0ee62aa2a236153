/* scan.h - a scan of the purger, and the pieces of bounded work that it is made of, for whoever holds `purger_scan_lock`. The helper and a
 * purge do all of them one after the other (release.c), the program's own calls some at each beat (beat.c). */
#ifndef HAK_SCAN_H
#define HAK_SCAN_H

#include "release/release.h"
#include "superslab/dirty.h"

/* Where a scan is: before its first piece; at a heap's inboxes, then at its slabs; below the heaps; behind its last piece. */
enum scan_stage { SCAN_BEGINS, SCAN_INBOXES, SCAN_SLABS, SCAN_SLICES, SCAN_DONE };

struct scan {
  unsigned idle_scans;   /* 0: everything goes, whatever its age */
  bool at_once;          /* slabs of any age; huge pages only where half of a slab goes */
  size_t unexpired;      /* bytes that have to wait */
  bool (*goes_on)(void); /* false: the rest is left; NULL: all is looked at */
  bool fences;           /* what threads have not sent goes, too, by a system call (heap/slots.h) */
  bool split;            /* a huge page was broken up: its other slabs deserve another scan */

  /* Where it goes on. */
  enum scan_stage stage;
  struct arena *arena;
  unsigned size_class; /* of the heap's */
  bool in_class;       /* some of its slabs were scanned */
  size_t left;         /* that many more at most */
  struct dirty_cursor slices;

  /* Of the ranges that go together. */
  bool gone;          /* every page of the batch was given back, and reads as zeros */
  size_t count;       /* ranges gathered */
  size_t decommitted; /* bytes in all */
  size_t gone_bytes;  /* of those, what the kernel has taken for sure */
};

/** A piece of the scan; false: that was the last one. */
bool scan_step(struct scan *scan);

/** For a scan of one class alone (growth.h): goes to its first slab; false: there is none. */
bool scan_start(struct arena *arena, unsigned size_class);
/** Up to a batch of slabs of the class, from slabs->next_scanned on; false when the class is done. */
bool scan_slabs(struct arena *arena, struct arena_class *slabs, struct scan *scan);

#endif
