/* span_cache.h - freed spans that a thread keeps for its next Large blocks. All sizes in bytes. */
#ifndef HAK_SPAN_CACHE_H
#define HAK_SPAN_CACHE_H

#include "superslab/guard_pages.h"

/* The longest span that a Large block gets. */
#define LARGE_MAX ((size_t)1 * MIB)

/* A thread keeps 8 MiB at most: more raised peak memory and saved no time. But each span that the cache cannot keep is a visit to
 * superslab_lock, which all threads share, and in the hardened variant two guards and the faults of its pages. So it may be more where
 * that lock is mostly taken (docs/decisions/0035), and with guards (0024), while memory is not short. */
enum { SPANS_LEAST = 8, SPANS_CACHED = 48 };
#define SPANS_BYTES ((size_t)24 * MIB)

/* A thread's freed spans, youngest last. Only its thread writes; the purger reads in passing (relaxed)
 * and gives back the pages of spans that it can claim by their kind. */
struct span_cache {
  _Atomic uint32_t count;
  _Atomic uint32_t changes;    /* spans that went in or out so far */
  uint32_t seen;               /* purger: `changes` at its last scan */
  uint8_t idle_scans;          /* purger: scans without a change */
  _Atomic uint8_t decommitted; /* may some of the spans have lost their pages? Set by the purger */
  uint8_t visits;      /* its thread's: to superslab_lock, since it last decided how much to keep */
  uint8_t busy;        /* its thread's: how many of these found the lock taken */
  uint8_t growth;      /* its thread's: it keeps SPANS_LEAST << growth */
  size_t taken;        /* its thread's: bytes that the cache could not serve so far */
  size_t bytes;        /* its thread's: of the spans */
  _Atomic size_t told; /* what span_cache_dirty_bytes knows of them; the purger lowers it, too */
  _Atomic(struct slab *) spans[SPANS_CACHED];
};

/* For its thread. */

/** A cached span of so many slices or a few more; NULL: none. */
struct slab *span_cache_take(struct span_cache *cache, unsigned slices);
/** Where guards are exact to the page: one that has room for `usable` bytes, and keeps its guard where it is. */
struct slab *span_cache_take_fitting(struct span_cache *cache, size_t usable);
/** The cache did not serve a request, so the SuperSlabs will. */
void span_cache_miss(struct span_cache *cache);
/** Keeps a span that is KIND_CACHED by now; the oldest ones make room for it. */
void span_cache_put(struct span_cache *cache, struct slab *span);

/* For the purger, one thread at a time. */

/** Is memory short? Then a cache keeps SPANS_LEAST at most, from its next free on. A hint. */
void span_cache_set_tight(bool tight);

/** Claims cached spans that still have their pages if nothing went in or out for `idle_scans` scans (0: in any case).
 * Returns how many, at most SPANS_CACHED; `*unexpired` grows by the bytes of those that have to wait. */
unsigned span_cache_claim_old(struct span_cache *cache, unsigned idle_scans, struct slab **spans,
                              size_t *unexpired);
/** Ends a claim: the pages are gone. */
void span_cache_decommitted(struct slab *span);

/** Bytes of all threads' cached spans that have their pages, at most 1 MiB too many for each thread; relaxed: a hint. */
size_t span_cache_dirty_bytes(void);

/** Gives all cached spans back. */
size_t span_cache_flush(struct span_cache *cache);
/** In the child of a fork, of a thread that is not there, which may have been between any two stores. */
void span_cache_settle(struct span_cache *cache);
/** In the child of a fork whose parent has a purger that holds claims: ends them. Its thread's. */
void span_cache_fork_child(struct span_cache *cache);

#endif
