/* large_fork.c - cached Large blocks in the child of a fork. */
#include "large/large.h"

/* Their pages may have gone, or not: nothing is said of what cached spans hold. Relaxed, all of it: the child has one thread. */
void span_cache_fork_child(struct span_cache *cache) {
  uint32_t count = atomic_load_explicit(&cache->count, memory_order_relaxed);
  for (uint32_t i = 0; i < count && i < SPANS_CACHED; i++) {
    struct slab *span = atomic_load_explicit(&cache->spans[i], memory_order_relaxed);
    if (span != NULL && atomic_load_explicit(&span->kind, memory_order_relaxed) == KIND_GIVING)
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
    cache->bytes += (size_t)span->slices << SLICE_SHIFT;
    atomic_store_explicit(&cache->spans[kept++], span, memory_order_relaxed);
  }
  atomic_store_explicit(&cache->count, kept, memory_order_relaxed);
}
