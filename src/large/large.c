/* large.c - see large.h. */
#include "large/large.h"

#include "observe/counters.h"
#include "observe/report.h"
#include "superslab/lock_parts.h"
#include "superslab/unit.h"

static unsigned slices_for(size_t bytes) {
  if (guard_pages_wanted()) bytes = round_to_page(bytes) + os_page_size();
  return bytes == 0 ? 1 : (unsigned)((bytes + SLICE_BYTES - 1) >> SLICE_SHIFT);
}

/* --- with a guard behind the block ------------------------------------------------------------------------ */

static struct slab *take_guarded(struct span_cache *cache, size_t bytes) {
  size_t usable = round_to_page(bytes);
  struct slab *span = option_guard() == GUARD_FULL ? span_cache_take_fitting(cache, usable) : NULL;
  bool fits = span != NULL;
  if (!fits) span = span_cache_take(cache, slices_for(bytes));
  if (span == NULL) return NULL;
  if (span_open(span) && (fits || span_fit(span, span->slices, usable))) return span;
  span_release(span);
  return NULL;
}

static struct slab *guarded(struct slab *span, size_t bytes) {
  if (span == NULL) return NULL;
  if (span_guard(span, round_to_page(bytes))) {
    span_guard_front(span);
    return span;
  }
  span_release(span);
  return NULL;
}

static bool resize_guarded(struct slab *span, size_t bytes) {
  size_t usable = round_to_page(bytes);
  unsigned slices = slices_for(bytes), had = span->slices;
  if (slices < had && usable > span_usable(span)) slices = had;
  if (slices != had && !span_resize(span, slices)) return false;
  bool done = span_fit(span, had, usable);
  if (!done && slices > had) span_resize(span, had);
  return done;
}

/* ------------------------------------------------------------------------------------------------------------ */

/* What a thread has to take before new SuperSlabs may have huge pages: 200 threads with three blocks each are no load
 * that fills them. */
#define TAKEN_LEAST (4 * MIB)

/* Huge pages once so much is mapped that the untouched rest of one weighs little. Not for a block that is shorter than
 * its alignment: the unit that is made for it holds one or two of its like, in 100 KiB of pages perhaps. */
static enum span_pages pages_for(struct span_cache *cache, unsigned slices,
                                 unsigned slice_alignment) {
  if (cache == NULL || slices < slice_alignment) return PAGES_SMALL;
  cache->taken += (size_t)slices << SLICE_SHIFT;
  bool enough = cache->taken >= TAKEN_LEAST && unit_mapped_bytes() >= HUGE_PAGES_FROM / 2;
  return enough ? PAGES_HUGE : PAGES_SMALL;
}

void *large_allocate(struct span_cache *cache, size_t bytes, size_t alignment, bool *zeroed) {
  if (large_is_huge(bytes, alignment)) {
    struct superslab *superslab = huge_acquire(bytes, alignment, zeroed);
    return superslab != NULL ? superslab->base : NULL;
  }
  unsigned slices = slices_for(bytes);
  unsigned slice_alignment = alignment <= SLICE_BYTES ? 1 : (unsigned)(alignment >> SLICE_SHIFT);
  *zeroed = false;
  struct slab *span = NULL;
  if (cache != NULL && slice_alignment == 1)
    span = guard_pages_wanted() ? take_guarded(cache, bytes) : span_cache_take(cache, slices);
  if (span == NULL) {
    enum span_pages pages = pages_for(cache, slices, slice_alignment);
    if (cache != NULL) span_cache_miss(cache);
    span = span_acquire(slices, slice_alignment, KIND_LARGE, pages, COUNTED_LARGE, zeroed);
    if (guard_pages_wanted()) span = guarded(span, bytes);
    unit_settle();
  }
  return span_locked(span);
}

void *large_allocate_left(size_t bytes, size_t alignment, bool *zeroed) {
  *zeroed = false;
  if (!guard_pages_wanted()) return NULL; /* nothing but what large_allocate has tried */
  if (large_is_huge(bytes, alignment)) {
    struct superslab *superslab = huge_acquire_unfenced(bytes, alignment, zeroed);
    return superslab != NULL ? superslab->base : NULL;
  }
  unsigned slices = slices_for(bytes);
  unsigned slice_alignment = alignment <= SLICE_BYTES ? 1 : (unsigned)(alignment >> SLICE_SHIFT);
  struct slab *span = span_acquire_left(slices, slice_alignment, KIND_LARGE, COUNTED_LARGE, zeroed);
  return span_locked(guarded(span, bytes));
}

bool large_could_fit(size_t bytes, size_t alignment) {
  size_t units = (bytes >> UNIT_SHIFT) + 1;
  return !large_is_huge(bytes, alignment) || unit_could_fit(units, alignment);
}

/* Of another node's memory nothing is kept. */
static bool is_kept(const struct span_cache *cache, const struct slab *span) {
  return cache != NULL && (!node_are_many() || superslab_of(span)->node == node_now());
}

bool large_free(struct span_cache *cache, struct slab *span) {
  bool kept = is_kept(cache, span);
  uint8_t kind = KIND_LARGE;
  /* It decides who of several callers goes on. What is not kept must not be claimed any more by the purger, which may
   * still know of it from a cache that had it before. release: pairs with the purger's claim; otherwise the span
   * passes to others under locks. */
  if (!atomic_compare_exchange_strong_explicit(&span->kind, &kind,
                                               kept ? KIND_CACHED : KIND_DECOMMITTED,
                                               memory_order_release, memory_order_relaxed))
    return false;
  if (span->offset != 0) { /* freed and handed out again meanwhile, as a part of another block */
    atomic_store_explicit(&span->kind, KIND_LARGE, memory_order_relaxed);
    return false;
  }
  span_close(span);
  if (!kept) {
    span_release(span);
    return true;
  }
  span_cache_put(cache, span);
  return true;
}

static bool resize(struct slab *span, size_t bytes) {
  return guard_pages_wanted() ? resize_guarded(span, bytes) : span_resize(span, slices_for(bytes));
}

bool large_resize(struct slab *span, size_t bytes) {
  size_t had = span_usable(span);
  if (bytes > LARGE_MAX || !resize(span, bytes)) return false;
  return span_lock(span) || (resize(span, had), false); /* shrinking does not fail */
}
