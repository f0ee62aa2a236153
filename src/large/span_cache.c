/* span_cache.c - see span_cache.h. */
#include "large/span_cache.h"

#include "observe/counters.h"
#include "superslab/dirty.h"
#include "superslab/lock_parts.h"
#include "superslab/unit.h"

/* Down to 7/8 of its length: more loss would show as resident memory. */
static bool serves(unsigned have, unsigned want) { return have >= want && have - want <= have / 8; }

static struct slab *span_at(const struct span_cache *cache, uint32_t i) {
  return atomic_load_explicit(&cache->spans[i], memory_order_relaxed);
}

static uint32_t span_count(const struct span_cache *cache) {
  return atomic_load_explicit(&cache->count, memory_order_relaxed);
}

/* Inlined: dirty_bytes reads in passing what ThreadSanitizer is not to look at, and clang would leave a call there. */
HAK_INLINE size_t bytes_of(const struct slab *span) { return (size_t)span->slices << SLICE_SHIFT; }

static atomic_bool memory_is_tight;

void span_cache_set_tight(bool tight) {
  /* A load first: the line is read at each free of a Large block. */
  if (atomic_load_explicit(&memory_is_tight, memory_order_relaxed) != tight)
    atomic_store_explicit(&memory_is_tight, tight, memory_order_relaxed);
}

/* The sum of what all caches have told; on a line of its own: it changes often. */
static _Alignas(64) _Atomic size_t cached_bytes;

size_t span_cache_dirty_bytes(void) {
  /* Who raises what a cache has told adds to the sum after that, and others may subtract before. */
  size_t bytes = atomic_load_explicit(&cached_bytes, memory_order_relaxed);
  return bytes > PTRDIFF_MAX ? 0 : bytes;
}

/* Of spans that have their pages. Also read in passing by the purger. */
__attribute__((no_sanitize("thread"))) static size_t dirty_bytes(const struct span_cache *cache) {
  size_t bytes = 0;
  uint32_t count = span_count(cache);
  for (uint32_t i = 0; i < count && i < SPANS_CACHED; i++) {
    const struct slab *span = span_at(cache, i);
    if (span != NULL && atomic_load_explicit(&span->kind, memory_order_relaxed) == KIND_CACHED)
      bytes += bytes_of(span);
  }
  return bytes;
}

static void tell(struct span_cache *cache, size_t told, size_t bytes) {
  if (told == bytes) return;
  /* Relaxed: hints. Compared, since the purger lowers it as well; what one of them misses, the next scan finds. */
  if (atomic_compare_exchange_strong_explicit(&cache->told, &told, bytes, memory_order_relaxed,
                                              memory_order_relaxed))
    atomic_fetch_add_explicit(&cached_bytes, bytes - told, memory_order_relaxed); /* may wrap */
}

/* Relaxed: the purger may set it a moment late, or for a span that left meanwhile. */
static void set_decommitted(struct span_cache *cache, bool decommitted) {
  atomic_store_explicit(&cache->decommitted, decommitted, memory_order_relaxed);
}

static bool any_decommitted(const struct span_cache *cache) {
  return atomic_load_explicit(&cache->decommitted, memory_order_relaxed) != 0;
}

/* More is told at once, or the little of each of a hundred threads would never be known. Less only from so much on: a program
 * that frees and allocates Large blocks by turns seldom writes to a line that others write to. Told too much costs a scan of the
 * purger, which corrects it. */
#define TELL_BYTES (4 * MIB)

static void tell_change(struct span_cache *cache) {
  size_t told = atomic_load_explicit(&cache->told, memory_order_relaxed);
  if (cache->bytes > told) {
    size_t dirty = any_decommitted(cache) ? dirty_bytes(cache) : cache->bytes;
    if (dirty > told) tell(cache, told, dirty);
  } else if (told - cache->bytes > TELL_BYTES) {
    tell(cache, told, cache->bytes);
  }
}

static void add(struct span_cache *cache, struct slab *span) {
  cache->bytes += bytes_of(span);
  uint32_t count = span_count(cache);
  atomic_store_explicit(&cache->spans[count], span, memory_order_relaxed);
  atomic_store_explicit(&cache->count, count + 1, memory_order_relaxed);
  uint32_t changes = atomic_load_explicit(&cache->changes, memory_order_relaxed);
  atomic_store_explicit(&cache->changes, changes + 1, memory_order_relaxed);
  tell_change(cache);
}

static void cache_remove(struct span_cache *cache, uint32_t at) {
  uint32_t count = span_count(cache);
  cache->bytes -= bytes_of(span_at(cache, at));
  tell_change(cache);
  for (; at + 1 < count; at++)
    atomic_store_explicit(&cache->spans[at], span_at(cache, at + 1), memory_order_relaxed);
  atomic_store_explicit(&cache->count, count - 1, memory_order_relaxed);
  if (count == 1 && any_decommitted(cache)) set_decommitted(cache, false);
}

/* Makes a cached span the caller's; false: its pages are being given back just now. */
static bool claim(struct slab *span) {
  uint8_t kind = atomic_load_explicit(&span->kind, memory_order_relaxed);
  /* acquire: pairs with span_cache_decommitted, so that the pages are gone before they are written again */
  while (kind != KIND_DECOMMITTING)
    if (atomic_compare_exchange_weak_explicit(&span->kind, &kind, KIND_LARGE, memory_order_acquire,
                                              memory_order_relaxed))
      return true;
  return false;
}

/* The purger has it for one system call. A real-time thread has to sleep for that: where it only gave way to threads of its own
 * rank, a purger on the same processor would never go on. */
static void claim_and_release(struct slab *span) {
  enum { YIELDS = 16 };
  static _Atomic uint32_t nobody_changes;
  for (unsigned tries = 0; !claim(span); tries++) {
    if (tries < YIELDS) os_yield();
    else os_sleep_on(&nobody_changes, 0, 1);
  }
  span_release(span);
}

/* Where freed blocks are held back, the last few wait: an old pointer to them then reaches no new block. */
enum { SPANS_WAITING = 2 };

static uint32_t span_count_ready(const struct span_cache *cache) {
  uint32_t count = span_count(cache);
  if (!guard_pages_hold_freed()) return count;
  return count > SPANS_WAITING ? count - SPANS_WAITING : 0;
}

struct slab *span_cache_take(struct span_cache *cache, unsigned slices) {
  for (uint32_t i = span_count_ready(cache); i-- > 0;) {
    struct slab *span = span_at(cache, i);
    if (!serves(span->slices, slices) || !claim(span)) continue;
    cache_remove(cache, i);
    return span;
  }
  return NULL;
}

/* A lock that three of four visits find taken is the limit of a program with many processors; on two of them threads that do nothing
 * else find it taken in a quarter. With 48 spans instead of 8, blocks of 64 KiB to 1 MiB take a twentieth of the visits (docs/decisions/0035). */
enum { VISITS = 64, BUSY_VISITS = 48, CALM_VISITS = 16, GROWTH_MOST = 3 };
static void note_visit(struct span_cache *cache) {
  cache->visits++;
  cache->busy += superslab_is_busy();
  if (cache->visits < VISITS) return;
  if (cache->busy >= BUSY_VISITS && cache->growth < GROWTH_MOST) cache->growth++;
  else if (cache->busy < CALM_VISITS && cache->growth > 0) cache->growth--;
  cache->visits = cache->busy = 0;
}

/* Where the cache does not serve what the program asks for, its oldest span goes as long as it holds more than so small a share of what
 * is mapped. Not one that the purger has just now; nor in the hardened variant, where its guard goes with it (mixed-large-touch: half more page faults,
 * docs/decisions/0046). */
enum { MISSED_SHARE = 32 };
void span_cache_miss(struct span_cache *cache) {
  note_visit(cache);
  struct slab *oldest = span_at(cache, 0);
  bool is_little = HAK_HARDENED || cache->bytes * MISSED_SHARE <= unit_mapped_bytes();
  if (is_little || !claim(oldest)) return;
  cache_remove(cache, 0);
  span_release(oldest);
}

/* The youngest of the shortest whose guard can stay where it is: no system call. A quarter too much, or a slice, is bearable. */
struct slab *span_cache_take_fitting(struct span_cache *cache, size_t usable) {
  uint32_t count = span_count_ready(cache), best = count;
  size_t limit = usable + (usable / 4 > SLICE_BYTES ? usable / 4 : SLICE_BYTES) + 1;
  for (uint32_t i = count; i-- > 0;) {
    size_t has = span_usable(span_at(cache, i));
    if (has < usable || has >= limit) continue;
    limit = has;
    best = i;
  }
  struct slab *span = best < count ? span_at(cache, best) : NULL;
  if (span == NULL || !claim(span)) return NULL;
  cache_remove(cache, best);
  return span;
}

static uint32_t spans_most(const struct span_cache *cache) {
  /* relaxed: a hint */
  if (atomic_load_explicit(&memory_is_tight, memory_order_relaxed)) return SPANS_LEAST;
  uint32_t most = HAK_HARDENED ? SPANS_CACHED : (uint32_t)SPANS_LEAST << cache->growth;
  return most < SPANS_CACHED ? most : SPANS_CACHED;
}

/* A few stay in any case; beyond them no more than half of all that is in use, as in the warm pool. What a spike leaves behind stays for ever
 * where nothing more happens, and each span keeps the SuperSlab that it lies in: eight of them 16 MiB. */
enum { SPANS_ANYWAY = 3 };

static bool is_too_much(const struct span_cache *cache, size_t more) {
  return span_count(cache) >= SPANS_ANYWAY && (cache->bytes + more) * 2 > superslab_bytes_in_use();
}

static bool is_full(const struct span_cache *cache, size_t more) {
  return span_count(cache) >= spans_most(cache) || cache->bytes + more > SPANS_BYTES ||
         is_too_much(cache, more);
}

void span_cache_put(struct span_cache *cache, struct slab *span) {
  while (is_full(cache, bytes_of(span))) { /* the oldest go */
    struct slab *oldest = span_at(cache, 0);
    cache_remove(cache, 0);
    note_visit(cache);
    claim_and_release(oldest);
  }
  add(cache, span);
}

size_t span_cache_flush(struct span_cache *cache) {
  size_t bytes = 0;
  cache->taken = 0;
  for (uint32_t count; (count = span_count(cache)) > 0;) {
    struct slab *span = span_at(cache, count - 1);
    cache_remove(cache, count - 1);
    bytes += bytes_of(span);
    claim_and_release(span);
  }
  tell(cache, atomic_load_explicit(&cache->told, memory_order_relaxed), 0);
  return bytes;
}

/* --- for the purger ------------------------------------------------------------------------------------ */

/* Slices of the unit that nobody uses, in this cache or any other: a hint, read in passing. */
__attribute__((no_sanitize("thread"))) static unsigned
idle_slices(const struct superslab *superslab) {
  unsigned idle = 0;
  for (unsigned i = 0; i < SLICES_PER_UNIT;) {
    const struct slab *span = &superslab->slabs[i];
    uint8_t kind = atomic_load_explicit(&span->kind, memory_order_relaxed);
    unsigned length = *(const volatile uint8_t *)&span->slices;
    unsigned slices = kind >= KIND_CACHED && length > 0 ? length : 1;
    if (kind == KIND_FREE || kind >= KIND_CACHED) idle += slices;
    i += slices;
  }
  return idle;
}

unsigned span_cache_claim_old(struct span_cache *cache, unsigned idle_scans, struct slab **spans,
                              size_t *unexpired) {
  unsigned claimed = 0;
  uint32_t changes = atomic_load_explicit(&cache->changes, memory_order_relaxed);
  cache->idle_scans = changes != cache->seen          ? 0
                      : cache->idle_scans < UINT8_MAX ? cache->idle_scans + 1
                                                      : UINT8_MAX;
  cache->seen = changes;
  uint32_t count = span_count(cache);
  for (uint32_t i = 0; i < count && i < SPANS_CACHED; i++) {
    struct slab *span = span_at(cache, i);
    /* Read without a lock: the span may be in use or another cache's by now. Descriptors are never freed, and
     * only a span that is cached can be claimed, which is right whosever it is.
     * acquire: what its thread wrote to the pages comes before they go. */
    uint8_t kind = KIND_CACHED;
    if (span == NULL || atomic_load_explicit(&span->kind, memory_order_relaxed) != kind) continue;
    if (cache->idle_scans < idle_scans) {
      *unexpired += LARGE_MAX; /* at most */
      continue;
    }
    if (!atomic_compare_exchange_strong_explicit(&span->kind, &kind, KIND_DECOMMITTING,
                                                 memory_order_acquire, memory_order_relaxed))
      continue;
    struct superslab *superslab = superslab_of(span);
    if (superslab_may_split(superslab, idle_slices(superslab), false)) spans[claimed++] = span;
    else atomic_store_explicit(&span->kind, KIND_CACHED, memory_order_release);
  }
  if (claimed > 0) set_decommitted(cache, true);
  size_t told = atomic_load_explicit(&cache->told, memory_order_relaxed);
  size_t dirty = dirty_bytes(cache);
  if (dirty < told) tell(cache, told, dirty);
  return claimed;
}

void span_cache_decommitted(struct slab *span) {
  /* release: see claim */
  atomic_store_explicit(&span->kind, KIND_DECOMMITTED, memory_order_release);
}

/* --- in the child of a fork ------------------------------------------------------------------------------- */

/* Their pages may have gone, or not: nothing is said of what cached spans hold. Relaxed, all of it: the child has one thread. */
void span_cache_fork_child(struct span_cache *cache) {
  uint32_t count = atomic_load_explicit(&cache->count, memory_order_relaxed);
  for (uint32_t i = 0; i < count && i < SPANS_CACHED; i++) {
    struct slab *span = atomic_load_explicit(&cache->spans[i], memory_order_relaxed);
    if (span != NULL &&
        atomic_load_explicit(&span->kind, memory_order_relaxed) == KIND_DECOMMITTING)
      atomic_store_explicit(&span->kind, KIND_CACHED, memory_order_relaxed);
  }
}

/* A span that was being taken out when the process forked is not cached any more, and others may be there twice. */
void span_cache_settle(struct span_cache *cache) {
  uint32_t count = atomic_load_explicit(&cache->count, memory_order_relaxed), kept = 0;
  struct slab *before = NULL;
  span_cache_fork_child(cache);
  cache->bytes = 0;
  for (uint32_t i = 0; i < count && i < SPANS_CACHED; i++) {
    struct slab *span = atomic_load_explicit(&cache->spans[i], memory_order_relaxed);
    if (span == NULL || span == before ||
        atomic_load_explicit(&span->kind, memory_order_relaxed) < KIND_CACHED)
      continue;
    before = span;
    cache->bytes += bytes_of(span);
    atomic_store_explicit(&cache->spans[kept++], span, memory_order_relaxed);
  }
  atomic_store_explicit(&cache->count, kept, memory_order_relaxed);
}
