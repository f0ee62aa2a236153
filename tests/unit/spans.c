/* spans.c - spans inside SuperSlabs: apart from each other, in as few SuperSlabs as can be, and through the
 * cache of a thread. */
#include "superslab/map.h"
#include "superslab_figures.h"

#include <string.h>

#include "large/large.h"
#include "observe/counters.h"
#include "policy/options.h"

WITHOUT_SAMPLES;

static int start(void **state) {
  (void)state;
  options_at_start();
  return 0;
}

enum { SPANS = 300 };

struct held_span {
  struct slab *span; /* NULL: none */
  unsigned slices;
  uint64_t seed;
};

static void check_span(const struct held_span *held) {
  assert_int_equal(held->span->slices, held->slices);
  assert_int_equal(held->span->offset, 0);
  char *base = slab_base(held->span);
  for (unsigned i = 0; i < held->slices; i++) {
    const struct slab *slice = map_slab(base + ((size_t)i << SLICE_SHIFT));
    assert_ptr_equal(slice, held->span + i);
    assert_int_equal(slice->offset, i);
    assert_null(map_inbox(base + ((size_t)i << SLICE_SHIFT)));
    /* One line a page would do as well; both ends of the slice are where a neighbour would write. */
    assert_true(block_is_filled(base + ((size_t)i << SLICE_SHIFT), 128, held->seed + i));
    assert_true(
        block_is_filled(base + ((size_t)(i + 1) << SLICE_SHIFT) - 128, 128, held->seed + i));
  }
}

static void fill_span(struct held_span *held, unsigned from) {
  char *base = slab_base(held->span);
  for (unsigned i = from; i < held->slices; i++) {
    fill_block(base + ((size_t)i << SLICE_SHIFT), 128, held->seed + i);
    fill_block(base + ((size_t)(i + 1) << SLICE_SHIFT) - 128, 128, held->seed + i);
  }
}

static void acquire_span(struct held_span *held, uint64_t *random) {
  bool zeroed = false;
  unsigned alignment = 1u << (random_below(random, 3) == 0 ? random_below(random, 6) : 0);
  held->slices = 1 + (unsigned)random_below(random, random_below(random, 3) == 0 ? 32 : 6);
  held->span = span_acquire(held->slices, alignment, KIND_LARGE, false, COUNTED_LARGE, &zeroed);
  assert_non_null(held->span);
  assert_int_equal(held->span->index % alignment, 0);
  assert_true(held->span->index + held->slices <= SLICES_PER_UNIT);
  char *base = slab_base(held->span);
  if (zeroed) assert_true(block_is_zero(base, (size_t)held->slices << SLICE_SHIFT));
  held->seed = next_random(random);
  fill_span(held, 0);
}

static void spans_do_not_overlap(void **state) {
  (void)state;
  static struct held_span held[SPANS];
  uint64_t random = 23, slices = 0;
  struct superslab_stats before = span_figures();
  for (int step = 0; step < 1500 * EFFORT; step++) {
    struct held_span *h = &held[random_below(&random, SPANS)];
    if (step % 64 == 0) span_figures();
    if (h->span == NULL) {
      acquire_span(h, &random);
      continue;
    }
    check_span(h);
    if (random_below(&random, 3) != 0) {
      span_release(h->span);
      h->span = NULL;
      continue;
    }
    unsigned old = h->slices, wanted = 1 + (unsigned)random_below(&random, 16);
    bool resized = span_resize(h->span, wanted);
    assert_true(resized || wanted > old);
    if (resized) {
      h->slices = wanted;
      fill_span(h, wanted < old ? wanted : old);
    }
    check_span(h);
  }
  for (int i = 0; i < SPANS; i++)
    if (held[i].span != NULL) slices += held[i].slices;
  assert_int_equal(span_figures().slab_bytes - before.slab_bytes, slices << SLICE_SHIFT);
  assert_int_equal(span_figures().large_bytes - before.large_bytes, slices << SLICE_SHIFT);
  for (int i = 0; i < SPANS; i++)
    if (held[i].span != NULL) {
      check_span(&held[i]);
      span_release(held[i].span);
    }
  struct superslab_stats after = span_figures();
  assert_int_equal(after.live, before.live);
  assert_int_equal(after.slab_bytes, before.slab_bytes);
  assert_true(after.peak >= slices / SLICES_PER_UNIT);
}

/* What was freed is used before a new SuperSlab is made: 32 spans of one slice fill one exactly. */
static void spans_fill_superslabs(void **state) {
  (void)state;
  enum { COUNT = 5 * SLICES_PER_UNIT };
  struct slab *spans[COUNT];
  bool zeroed;
  uint64_t live = span_figures().live;
  for (int i = 0; i < COUNT; i++) {
    spans[i] = span_acquire(1, 1, KIND_LARGE, false, COUNTED_LARGE, &zeroed);
    assert_non_null(spans[i]);
  }
  assert_int_equal(span_figures().live, live + 5);
  for (int i = 0; i < COUNT; i += 2) span_release(spans[i]);
  for (int i = 0; i < COUNT; i += 2) {
    spans[i] = span_acquire(1, 1, KIND_LARGE, false, COUNTED_LARGE, &zeroed);
    assert_non_null(spans[i]);
  }
  assert_int_equal(span_figures().live, live + 5);
  for (int i = 0; i < COUNT; i++) span_release(spans[i]);
  assert_int_equal(span_figures().live, live);
}

/* --- span cache ----------------------------------------------------------------------------------- */

static void the_span_cache_gives_back_what_it_took(void **state) {
  (void)state;
  struct span_cache cache = {0};
  enum { BLOCKS = 30 };
  void *blocks[BLOCKS];
  uint64_t random = 41;
  struct superslab_stats before = span_figures();
  for (int round = 0; round < 25 * EFFORT; round++) {
    size_t sizes[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
      bool zeroed = false;
      sizes[i] = 65 * KIB + random_below(&random, LARGE_MAX - 65 * KIB);
      blocks[i] = large_allocate(i % 5 == 0 ? NULL : &cache, sizes[i], 16, &zeroed);
      assert_non_null(blocks[i]);
      if (zeroed) assert_true(block_is_zero(blocks[i], sizes[i]));
      memset(blocks[i], i, sizes[i]);
    }
    for (int i = 0; i < BLOCKS; i++) {
      unsigned char *bytes = blocks[i];
      assert_int_equal(bytes[0], i);
      assert_int_equal(memcmp(bytes, bytes + 1, sizes[i] - 1), 0);
      assert_true(large_free(&cache, map_slab(blocks[i])));
    }
    assert_true(cache.count <= sizeof cache.spans / sizeof cache.spans[0]);
  }
  assert_true(span_cache_flush(&cache) > 0);
  assert_int_equal(cache.count, 0);
  assert_int_equal(span_cache_flush(&cache), 0);
  assert_int_equal(span_figures().live, before.live);
  assert_int_equal(span_figures().slab_bytes, before.slab_bytes);
}

/* Stands for the real one in this program: what the threads of many processors would see. */
static bool others_are_there;
bool __wrap_superslab_is_busy(void);
bool __wrap_superslab_is_busy(void) { return others_are_there; }

/* Spans that the cache keeps of so many that are freed, again and again. */
static uint32_t kept_of(struct span_cache *cache, size_t bytes, int rounds) {
  enum { BLOCKS = 100 };
  for (int round = 0; round < rounds; round++) {
    void *blocks[BLOCKS];
    bool zeroed;
    for (int i = 0; i < BLOCKS; i++)
      assert_non_null(blocks[i] = large_allocate(cache, bytes, 16, &zeroed));
    for (int i = 0; i < BLOCKS; i++) {
      assert_true(large_free(cache, map_slab(blocks[i])));
      assert_true(cache->bytes <= SPANS_BYTES);
    }
  }
  return cache->count;
}

static void more_is_kept_where_the_lock_is_taken(void **state) {
  (void)state;
  enum { FEW = 1, MANY = 10 };
  const size_t small = 65 * KIB, large = LARGE_MAX;
  struct span_cache cache = {0};
  uint32_t least = HAK_HARDENED ? SPANS_CACHED : SPANS_LEAST;
  void *others[2 * SPANS_BYTES / LARGE_MAX]; /* a cache keeps no more than half of what is in use */
  bool zeroed;
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    assert_non_null(others[i] = large_allocate(NULL, LARGE_MAX, 16, &zeroed));
  assert_int_equal(kept_of(&cache, small, MANY), least);
  others_are_there = true;
  assert_int_equal(kept_of(&cache, small, MANY), SPANS_CACHED);
  assert_int_equal(kept_of(&cache, large, MANY), SPANS_BYTES / LARGE_MAX);
  span_cache_set_tight(true);
  assert_int_equal(kept_of(&cache, small, FEW), SPANS_LEAST);
  span_cache_set_tight(false);
  assert_int_equal(kept_of(&cache, small, FEW), SPANS_CACHED);
  others_are_there = false;
  assert_int_equal(kept_of(&cache, small, MANY), least);
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    assert_true(large_free(NULL, map_slab(others[i])));
  span_cache_flush(&cache);
  assert_in_range(kept_of(&cache, large, FEW), 1, SPANS_LEAST / 2); /* the end of a spike */
  span_cache_flush(&cache);
}

/* The oldest, one at each request that the cache does not serve, down to a share of what is mapped. */
static void spans_that_serve_nothing_go(void **state) {
  (void)state;
  enum { SPANS_IN_CACHE = 3, SHARE = 32 };
  struct span_cache cache = {0};
  void *blocks[SPANS_IN_CACHE], *longer[SPANS_IN_CACHE];
  bool zeroed;
  unit_trim();
  for (int i = 0; i < SPANS_IN_CACHE; i++)
    assert_non_null(blocks[i] = large_allocate(NULL, 300 * KIB, 16, &zeroed));
  for (int i = 0; i < SPANS_IN_CACHE; i++) assert_true(large_free(&cache, map_slab(blocks[i])));
  assert_int_equal(cache.count, SPANS_IN_CACHE);
  for (int i = 0; i < SPANS_IN_CACHE; i++) {
    uint32_t count = cache.count;
    bool too_much = !HAK_HARDENED && cache.bytes * SHARE > unit_figures().bytes_mapped;
    assert_true(too_much || i > 0 || HAK_HARDENED);
    assert_non_null(longer[i] = large_allocate(&cache, 700 * KIB, 16, &zeroed));
    assert_int_equal(cache.count, count - too_much);
    if (cache.count > 0)
      assert_ptr_equal(cache.spans[0], map_slab(blocks[SPANS_IN_CACHE - cache.count]));
  }
  for (int i = 0; i < SPANS_IN_CACHE; i++) assert_true(large_free(NULL, map_slab(longer[i])));
  span_cache_flush(&cache);
}

static struct span_cache *seen_before; /* by the purger, which looks again when a span goes back */
static unsigned claimed;

void __real_span_release(struct slab *span);
void __wrap_span_release(struct slab *span);
void __wrap_span_release(struct slab *span) {
  struct slab *spans[SPANS_CACHED];
  size_t unexpired = 0;
  if (seen_before != NULL) claimed += span_cache_claim_old(seen_before, 0, spans, &unexpired);
  __real_span_release(span);
}

/* The purger reads caches in passing: it may come to a span when that has left the cache, and is freed where nobody keeps it. Its
 * pages would then be taken from whoever has the slices next. */
static void what_goes_back_is_not_claimed(void **state) {
  (void)state;
  bool zeroed;
  struct span_cache cache = {0}, stale;
  void *block = large_allocate(&cache, 300 * KIB, 16, &zeroed);
  assert_non_null(block);
  assert_true(large_free(&cache, map_slab(block)));
  assert_int_equal(cache.count, 1);
  stale = cache;
  assert_ptr_equal(large_allocate(&cache, 300 * KIB, 16, &zeroed), block);
  seen_before = &stale;
  assert_true(large_free(NULL, map_slab(block)));
  seen_before = NULL;
  assert_int_equal(claimed, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(spans_do_not_overlap),
      cmocka_unit_test(spans_fill_superslabs),
      cmocka_unit_test(the_span_cache_gives_back_what_it_took),
      cmocka_unit_test(spans_that_serve_nothing_go),
      cmocka_unit_test(what_goes_back_is_not_claimed),
      cmocka_unit_test(more_is_kept_where_the_lock_is_taken),
  };
  return cmocka_run_group_tests_name("spans", tests, start, NULL);
}
