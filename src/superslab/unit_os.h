/* unit_os.h - runs of units from and to the OS, and what of them is counted. */
#ifndef HAK_UNIT_OS_H
#define HAK_UNIT_OS_H

#include "superslab/superslab.h"
#include "superslab/warm.h"

struct unit_run {
  char *base;      /* NULL: no memory */
  bool zeroed;     /* reads as zeros */
  bool huge_pages; /* explicit ones */
  size_t used;     /* how many units from the start on hold pages that were in use before */
  bool from_os;    /* the OS was asked, with or without success */
  uint8_t node;    /* where its pages are; of untouched ones, the calling thread's */
};

/* Bytes that the program got, or is about to get, which were not in memory before: never less. Relaxed: a figure. */
extern _Atomic size_t unit_taken_bytes HAK_HIDDEN;
HAK_INLINE size_t unit_taken(void) {
  return atomic_load_explicit(&unit_taken_bytes, memory_order_relaxed);
}
HAK_INLINE void unit_take(size_t bytes) {
  if (bytes > 0) atomic_fetch_add_explicit(&unit_taken_bytes, bytes, memory_order_relaxed);
}

/* Has the process a limit of its memory, so that what is given back has to leave its group at once? Relaxed: a hint. */
extern atomic_bool unit_limited HAK_HIDDEN;

/** Counts units that came (positive) or went by other ways: mremap, a partial unmap. */
void unit_account(ptrdiff_t units);

/** Bytes in the warm pool; relaxed: a hint. */
size_t unit_warm_bytes(void);
/** So many it may hold just now; more once what had to leave was wanted again within a second. */
size_t unit_warm_most(void);
/** Bytes of all units mapped, the warm pool's and those of huge blocks too. */
size_t unit_mapped_bytes(void);
/** Has the system refused units within the last second? Then address space that is held in vain is what is missing. */
bool unit_was_refused(void);
/** May parts of the units get states of their own, with which the kernel needs a mapping for each? Not above 32 GiB. */
bool unit_may_cut_mappings(void);
/** Asks for huge pages in units of ours (os_advise_huge), or for none (os_advise_small). False: the kernel refuses, or it would make too many mappings
 * (mappings.h). */
bool unit_advise_huge(char *base, size_t units);
bool unit_advise_small(char *base, size_t units);

/* Since the start, but for `mapped`: units mapped now. */
struct unit_counts {
  _Atomic uint64_t mapped, acquired, released, fallback_mmap, huge_alloc, huge_fail;
  _Atomic uint64_t decommit_disabled;
};
extern struct unit_counts unit_counts HAK_HIDDEN;

/* A run that the kernel refused to unmap and that found no place in the pool: its own first bytes
 * hold the link, so that even then nothing is lost. */
struct stuck_run {
  struct stuck_run *next;
  size_t units;
  bool huge_pages;
  uint8_t node;
};
extern struct stuck_run *unit_stuck HAK_HIDDEN; /* unit_lock */
extern struct warm_pool unit_pool HAK_HIDDEN;   /* unit_lock */

extern struct lock unit_lock;
/** In the child of a fork where what unit_lock guards is not whole: leaves the pool's memory where it is. */
void unit_forget(void);

/* --- for the files of units alone; the lock is not held ------------------------------------------------ */

void unit_pool_lock(void);
/** Also says how much the pool has by now. */
void unit_pool_unlock(void);
void unit_count(_Atomic uint64_t *counter, uint64_t n);
/** Units that are mapped. */
size_t unit_mapped(void);
/** Without those that are kept only because they cannot be unmapped. */
size_t unit_held(void);
/** Is more held than HAKMEM_SS_MEM_LEAN_TARGET_MB? */
bool unit_above_target(void);
/** A run that could not be unmapped; under unit_lock. */
bool unit_stuck_take(size_t units, size_t alignment, unsigned node, struct warm_run *out);
/** A run of new address space, or of kept units. `ahead` units of it come before the place that is aligned. `ordinary`: no explicit huge
 * pages. */
struct unit_run unit_map_run(size_t units, size_t alignment, size_t ahead, bool ordinary);
/** Unmaps a run, or keeps it where that makes too many mappings; one that the kernel refuses goes back into the pool. */
void unit_give_back(struct warm_run run);
void unit_give_back_all(const struct warm_run *runs, size_t count_runs);
/** HAKMEM_SS_MEM_LEAN_DECOMMIT=FREE: runs past their time stay, marked for the kernel to take. */
void unit_free_lazily(void);
/** Of the kept units those that can be unmapped by now, in so many stretches at most, until the kernel refuses; bytes. */
size_t unit_unmap_kept(int stretches, size_t most_mappings);

#endif
