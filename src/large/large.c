/* large.c - see large.h. */
#include "large/large.h"

#include "observe/counters.h"
#include "observe/report.h"

/* A cached span serves requests down to 7/8 of its length: more loss would show as resident memory. */
static bool serves(unsigned have, unsigned want) { return have >= want && have - want <= have / 8; }

static void mark(struct slab *span, enum slab_kind kind) {
  atomic_store_explicit(&span->kind, (uint8_t)kind, memory_order_relaxed);
}

static struct slab *cache_take(struct span_cache *cache, unsigned slices) {
  for (uint32_t i = cache->count; i-- > 0;) {
    struct slab *span = cache->spans[i];
    if (!serves(span->slices, slices)) continue;
    for (uint32_t j = i; j + 1 < cache->count; j++) cache->spans[j] = cache->spans[j + 1];
    cache->count--;
    mark(span, KIND_LARGE);
    return span;
  }
  return NULL;
}

static unsigned slices_for(size_t bytes) {
  return bytes == 0 ? 1 : (unsigned)((bytes + SLICE_BYTES - 1) >> SLICE_SHIFT);
}

void *large_allocate(struct span_cache *cache, size_t bytes, size_t alignment, bool *zeroed) {
  if (large_is_huge(bytes, alignment)) {
    struct superslab *superslab = huge_acquire(bytes, alignment, zeroed);
    return superslab != NULL ? superslab->base : NULL;
  }
  unsigned slices = slices_for(bytes);
  unsigned slice_alignment = alignment <= SLICE_BYTES ? 1 : (unsigned)(alignment >> SLICE_SHIFT);
  *zeroed = false;
  struct slab *span = cache != NULL && slice_alignment == 1 ? cache_take(cache, slices) : NULL;
  if (span == NULL)
    span = span_acquire(slices, slice_alignment, KIND_LARGE, false, COUNTED_LARGE, zeroed);
  return span != NULL ? slab_base(span) : NULL;
}

bool large_free(struct span_cache *cache, struct slab *span) {
  enum { SPANS = sizeof cache->spans / sizeof cache->spans[0] };
  uint8_t kind = KIND_LARGE;
  /* relaxed: it only decides who of several callers goes on; the span passes to others under locks */
  if (!atomic_compare_exchange_strong_explicit(&span->kind, &kind, KIND_CACHED,
                                               memory_order_relaxed, memory_order_relaxed))
    return false;
  if (span->offset != 0) { /* freed and handed out again meanwhile, as a part of another block */
    mark(span, KIND_LARGE);
    return false;
  }
  if (cache == NULL) {
    span_release(span);
    return true;
  }
  if (cache->count == SPANS) {
    struct slab *oldest = cache->spans[0];
    for (uint32_t i = 0; i + 1 < SPANS; i++) cache->spans[i] = cache->spans[i + 1];
    cache->count--;
    span_release(oldest);
  }
  cache->spans[cache->count++] = span;
  return true;
}

bool large_resize(struct slab *span, size_t bytes) {
  return bytes <= LARGE_MAX && span_resize(span, slices_for(bytes));
}

size_t span_cache_flush(struct span_cache *cache) {
  size_t bytes = 0;
  while (cache->count > 0) {
    struct slab *span = cache->spans[--cache->count];
    bytes += (size_t)span->slices << SLICE_SHIFT;
    span_release(span);
  }
  return bytes;
}
