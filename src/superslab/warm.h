/* warm.h - the warm pool: runs of units that nobody uses, kept for reuse.
 *
 * A plain data structure without a lock of its own: unit.c guards it. It makes no system calls.
 *
 * How much it holds. It starts small and grows by regret: units that had to go for want of room and were
 * asked of the OS again within a second. What ages out unused shrinks it again. So a program that
 * frees a large buffer once does not keep it, and one that replaces large buffers all the time keeps
 * what it needs (docs/decisions/0008). While units go and none are asked for it holds less than at first: the program is done with
 * them, and perhaps nothing more happens.
 */
#ifndef HAK_WARM_H
#define HAK_WARM_H

#include "superslab/superslab.h"

struct warm_run {
  char *base;
  size_t units;
  uint64_t since_ms; /* when its longest part came */
  bool zeroed;
  bool huge_pages;   /* explicit ones */
  bool lazily_freed; /* MADV_FREE was said: still counts as resident, costs the kernel nothing */
  uint8_t node;      /* where its pages are (node.h) */
  size_t
      fenced; /* hardened: it has a Huge block's guards, the second so far behind the block's start; 0: none */
};

/* 64 runs: more would make the search visible beside the system call it saves. */
enum { WARM_RUNS = 64 };

struct warm_pool {
  struct warm_run runs[WARM_RUNS]; /* what came last, or was joined with it, at the end */
  size_t count;
  size_t units; /* of all runs */
  size_t bare;  /* of these, what is for guards alone: it is no memory, and no budget counts it */
  size_t grown_units;   /* what it may hold beyond its first size */
  size_t evicted_units; /* had to go for want of room and were not asked for again */
  uint64_t evicted_ms;  /* when the last of them went */
  size_t gone_units;    /* had to go since the OS was last asked for units */
};

/** Units of the run that hold no pages: in front of a fenced block, and behind it where its guard has a unit for itself. */
HAK_INLINE size_t warm_bare(const struct warm_run *run) {
  if (!HAK_HARDENED || run->fenced == 0) return 0;
  return run->fenced % UNIT_BYTES == 0 ? 2 : 1;
}

HAK_INLINE bool warm_is_full(const struct warm_pool *pool) { return pool->count == WARM_RUNS; }

/** The most units it holds now, beside bare ones. */
size_t warm_budget(const struct warm_pool *pool);

/** Puts a run in, joined with its neighbours in the pool that are alike: what is joined has the age of its longest part. The pool
 * must not be full. */
void warm_insert(struct warm_pool *pool, struct warm_run run);

/** Takes out the run at an index. */
struct warm_run warm_remove(struct warm_pool *pool, size_t at);

/* `node`: of these runs only; NODE_ANY: of all. */

/** The smallest run without guards that fits, cut to `units`; `alignment` in bytes. False: there is none. */
bool warm_take(struct warm_pool *pool, size_t units, size_t alignment, unsigned node,
               struct warm_run *out);

/** A run with its guards that serves a Huge block of `usable` bytes as it is, the shortest of them. Or one that has as many units for a
 * block, of which the guard behind it may have to be moved. False: there is none. */
bool warm_take_fenced(struct warm_pool *pool, size_t usable, unsigned node, struct warm_run *out);

/** The longest run with guards, of at least `units` that hold pages. False: there is none. */
bool warm_take_any_fenced(struct warm_pool *pool, size_t units, unsigned node,
                          struct warm_run *out);

/** The first `units` of the run that begins at `base`, if it is as long, without guards and of ordinary pages. False: there is none. */
bool warm_take_at(struct warm_pool *pool, const char *base, size_t units, unsigned node);

/** Up to `most` runs without guards that together have at most `units`, the longest first; returns how many. */
size_t warm_take_pieces(struct warm_pool *pool, size_t units, unsigned node,
                        struct warm_run *pieces, size_t most);

/** Would warm_take_victim find one? */
bool warm_is_over(const struct warm_pool *pool, bool to_nothing);

/** Takes out a run that has to go: one that is too old, or the first where the pool would be over its budget with `incoming` more units in
 * it. `to_nothing`: there is no budget. False: none has to. */
bool warm_take_victim(struct warm_pool *pool, size_t incoming, bool to_nothing,
                      struct warm_run *victim);

/** `units` go to the OS because the pool has no room. */
void warm_no_room_for(struct warm_pool *pool, size_t units);

/** `units` had to come from the OS; `in_use` units are out of the pool. */
void warm_missed(struct warm_pool *pool, size_t units, size_t in_use);

#endif
