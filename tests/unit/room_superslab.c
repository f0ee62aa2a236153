/* room_superslab.c - the address map, metadata, units, spans and huge blocks, each by its own
 * interface and below any heap. */
#include "unit_test.h"

#include <string.h>
#include <sys/mman.h>

#include "large/large.h"
#include "observe/counters.h"
#include "policy/options.h"
#include "superslab/dirty.h"
#include "superslab/figures.h"

/* Single-threaded work, which ThreadSanitizer makes ten times slower and learns nothing from. */
#if defined(__SANITIZE_THREAD__)
enum { EFFORT = 1 };
#else
enum { EFFORT = 8 };
#endif

static int start(void **state) {
  (void)state;
  options_read();
  return 0;
}

static bool is_power_of_two(size_t n) { return n != 0 && (n & (n - 1)) == 0; }

/* --- map ------------------------------------------------------------------------------------------ */

static char *reserve_unit(void) {
  char *p =
      mmap(NULL, 3 * UNIT_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  assert_ptr_not_equal(p, MAP_FAILED);
  return (char *)(((uintptr_t)p + UNIT_BYTES - 1) & ~(UNIT_BYTES - 1));
}

static void map_finds_a_unit_by_any_of_its_bytes(void **state) {
  (void)state;
  char *base = reserve_unit();
  struct superslab *superslab = meta_allocate(sizeof *superslab, 64);
  assert_non_null(superslab);
  assert_null(map_superslab(base));
  assert_true(map_set(base, 1, superslab));
  for (size_t offset = 0; offset < UNIT_BYTES; offset += 4095) {
    assert_ptr_equal(map_superslab(base + offset), superslab);
    assert_ptr_equal(map_slab(base + offset), &superslab->slabs[offset >> SLICE_SHIFT]);
    assert_null(map_bin(base + offset));
  }
  assert_ptr_equal(map_superslab(base + UNIT_BYTES - 1), superslab);
  assert_null(map_superslab(base - 1));
  assert_null(map_superslab(base + UNIT_BYTES));
  /* A bin for three slices, seen from each of their bytes and from no other. */
  struct bin *bin = (struct bin *)(void *)superslab;
  for (unsigned first = 0; first < SLICES_PER_UNIT; first += SLICES_PER_UNIT - 3) {
    char *start = base + ((size_t)first << SLICE_SHIFT);
    map_set_bin(start, 3, bin);
    for (size_t offset = 0; offset < UNIT_BYTES; offset += 4095) {
      bool inside = base + offset >= start && base + offset < start + 3 * SLICE_BYTES;
      assert_ptr_equal(map_bin(base + offset), inside ? bin : NULL);
    }
    assert_null(map_bin(base - 1));
    assert_null(map_bin(base + UNIT_BYTES));
    map_set_bin(start, 3, NULL);
  }
  map_clear(base, 1);
  assert_null(map_superslab(base));
  assert_null(map_superslab(base + UNIT_BYTES - 1));
}

/* What is not ours has no bin, or no entry: free() relies on it. */
static void map_has_no_bin_for_foreign_addresses(void **state) {
  (void)state;
  int on_stack;
  const uintptr_t foreign[] = {0,
                               1,
                               0xfff,
                               0x1fffff,
                               0x200000,
                               0x3fffffff,
                               0x40000000,
                               0xdeadbeef,
                               (uintptr_t)&on_stack,
                               (uintptr_t)map_has_no_bin_for_foreign_addresses,
                               0x7fffffffffff,
                               0x800000000000,
                               0xdeadbeefdeadbeef,
                               0xffff800000000000,
                               UINTPTR_MAX};
  for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++)
    for (size_t slice = 0; slice < SLICES_PER_UNIT; slice++) {
      uintptr_t address = (foreign[i] & ~(UNIT_BYTES - 1)) | slice << SLICE_SHIFT;
      assert_null(map_superslab((const void *)address));
      if (map_has_entry((const void *)address)) assert_null(map_bin((const void *)address));
      else assert_true(address >> MAP_ADDRESS_BITS != 0);
    }
}

static const char *unit_address(uintptr_t unit) { return (const char *)(unit << UNIT_SHIFT); }

static void map_enters_nothing_beyond_its_root(void **state) {
  (void)state;
  const uintptr_t units = (uintptr_t)1 << (MAP_ADDRESS_BITS - UNIT_SHIFT);
  struct superslab *superslab = meta_allocate(sizeof *superslab, 64);
  assert_true(map_set(unit_address(units - 1), 1, superslab));
  assert_ptr_equal(map_superslab(unit_address(units - 1)), superslab);
  map_clear(unit_address(units - 1), 1);
  assert_false(map_set(unit_address(units - 1), 2, superslab));
  assert_null(map_superslab(unit_address(units - 1)));
  assert_false(map_set(unit_address(units), 1, superslab));
}

/* Leaves stand for 4 GiB each. */
static void units_on_both_sides_of_a_leafs_end_are_entered(void **state) {
  (void)state;
  const uintptr_t end = (uintptr_t)5 << 32; /* nothing is mapped so low */
  struct superslab *superslab = meta_allocate(sizeof *superslab, 64);
  const char *base = (const char *)(end - 2 * UNIT_BYTES);
  size_t units = 4 + LEAF_UNITS;
  assert_null(map_superslab(base));
  assert_null(map_bin(base));
  assert_true(map_set(base, units, superslab));
  for (size_t i = 0; i < units; i++)
    assert_ptr_equal(map_superslab(base + (i << UNIT_SHIFT)), superslab);
  assert_null(map_superslab(base - 1));
  assert_null(map_superslab(base + (units << UNIT_SHIFT)));
  struct bin *bin = (struct bin *)(void *)superslab;
  const char *slices = (const char *)(end - 3 * SLICE_BYTES);
  map_set_bin(slices, 6, bin);
  for (size_t i = 0; i < 6; i++) assert_ptr_equal(map_bin(slices + i * SLICE_BYTES), bin);
  assert_null(map_bin(slices - 1));
  assert_null(map_bin(slices + 6 * SLICE_BYTES));
  map_set_bin(slices, 6, NULL);
  assert_true(map_claim(base, superslab));
  assert_false(map_claim(base, superslab));
  map_clear(base, units);
  for (size_t i = 0; i < units; i++) assert_null(map_superslab(base + (i << UNIT_SHIFT)));
}

/* What the kernel says of a page beside memory: is nobody let in? */
static bool is_guarded(const char *page) {
  int pipe_ends[2];
  assert_int_equal(pipe(pipe_ends), 0);
  bool refused = write(pipe_ends[1], page, 1) < 0;
  close(pipe_ends[0]);
  close(pipe_ends[1]);
  return refused;
}

static void metadata_lies_between_guard_pages(void **state) {
  (void)state;
  size_t page = os_page_size();
  char *memory = os_map_guarded(5 * page);
  assert_non_null(memory);
  assert_true(block_is_zero(memory, 5 * page));
  memset(memory, 1, 5 * page);
  assert_true(is_guarded(memory - 1) && is_guarded(memory + 5 * page));
  assert_false(is_guarded(memory) || is_guarded(memory + 5 * page - 1));
  assert_true(os_unmap_guarded(memory, 5 * page));
  /* The leaf of a unit, and chunks of descriptors. */
  char *base = hak_malloc(100);
  _Atomic(struct bin *) *entry =
      map_bin_entry((char *)((uintptr_t)base >> LEAF_SHIFT << LEAF_SHIFT));
  assert_true(is_guarded((char *)entry - 1));
  assert_true(is_guarded((char *)entry + sizeof(struct map_leaf)) ||
              is_guarded((char *)entry + sizeof(struct map_leaf) + page - 1));
  hak_free(base);
  char *descriptor = meta_allocate(300 * KIB, 64); /* a chunk of its own */
  char *next = meta_allocate(300 * KIB, 64);
  assert_true(descriptor != NULL && next != NULL);
  assert_true(is_guarded((char *)((uintptr_t)descriptor & ~(page - 1)) - 1));
  assert_true(is_guarded((char *)((uintptr_t)next & ~(page - 1)) - 1));
}

/* --- metadata ------------------------------------------------------------------------------------- */

static void metadata_is_zeroed_aligned_and_apart(void **state) {
  (void)state;
  unsigned char *before = NULL;
  size_t bytes_before = 0;
  uint64_t used = meta_bytes_used();
  uint64_t random = 5, total = 0;
  for (int i = 0; i < 2000; i++) {
    size_t alignment = (size_t)8 << random_below(&random, 11);
    size_t bytes = 1 + random_below(&random, i % 100 == 0 ? 600000 : 3000);
    unsigned char *p = meta_allocate(bytes, alignment);
    assert_non_null(p);
    assert_true(is_aligned(p, alignment));
    assert_true(block_is_zero(p, bytes));
    memset(p, 0xee, bytes);
    assert_true(before == NULL || p >= before + bytes_before || p + bytes <= before);
    before = p;
    bytes_before = bytes;
    total += bytes;
  }
  assert_int_equal(meta_bytes_used() - used, total);
}

/* --- units ---------------------------------------------------------------------------------------- */

static struct unit_stats unit_figures(void) {
  struct unit_stats stats;
  unit_stats_get(&stats);
  assert_int_equal(unit_warm_bytes(), stats.units_warm << UNIT_SHIFT);
  return stats;
}

static void units_are_aligned_apart_and_what_they_say(void **state) {
  (void)state;
  enum { RUNS = 60 };
  struct {
    struct unit_run run;
    size_t units;
  } held[RUNS] = {0};
  uint64_t random = 17;
  unit_trim();
  uint64_t mapped = unit_figures().bytes_mapped;
  for (int step = 0; step < 400 * EFFORT; step++) {
    int i = (int)random_below(&random, RUNS);
    if (held[i].run.base != NULL) {
      for (size_t u = 0; u < held[i].units; u++) {
        assert_int_equal(held[i].run.base[u << UNIT_SHIFT], (char)i);
        assert_int_equal(held[i].run.base[((u + 1) << UNIT_SHIFT) - 1], (char)i);
      }
      unit_release(held[i].run.base, held[i].units, false);
      held[i].run.base = NULL;
      continue;
    }
    held[i].units = 1 + (random_below(&random, 4) == 0 ? random_below(&random, 20) : 0);
    size_t alignment = UNIT_BYTES << (random_below(&random, 5) == 0 ? random_below(&random, 5) : 0);
    held[i].run = unit_acquire(held[i].units, alignment);
    char *base = held[i].run.base;
    assert_non_null(base);
    assert_true(is_aligned(base, alignment));
    for (size_t u = 0; u < held[i].units; u++) {
      char *first = base + (u << UNIT_SHIFT), *last = first + UNIT_BYTES - 1;
      if (held[i].run.zeroed) {
        assert_int_equal(*first, 0);
        assert_int_equal(*last, 0);
      }
      *first = *last = (char)i;
    }
  }
  for (int i = 0; i < RUNS; i++)
    if (held[i].run.base != NULL) unit_release(held[i].run.base, held[i].units, false);
  unit_trim();
  assert_int_equal(unit_figures().units_warm, 0);
  assert_int_equal(unit_figures().bytes_mapped, mapped);
}

static void prewarmed_units_are_resident_and_come_first(void **state) {
  (void)state;
  unit_trim();
  uint64_t mapped = unit_figures().bytes_mapped;
  assert_int_equal(unit_prewarm(0), 0);
  size_t units = unit_prewarm(3);
  if (units == 0) return; /* the pool may hold nothing */
  assert_true(units <= 3);
  assert_int_equal(unit_figures().units_warm, units);
  assert_int_equal(unit_figures().bytes_mapped, mapped + (units << UNIT_SHIFT));
  uint64_t calls = atomic_load(&os_counts.mmap);
  struct unit_run run = unit_acquire(units, UNIT_BYTES);
  assert_int_equal(atomic_load(&os_counts.mmap), calls);
  assert_true(run.zeroed && !run.from_os);
  for (size_t at = 0; at < units << UNIT_SHIFT; at += 64 * KIB) {
    assert_int_equal(run.base[at], 0);
    assert_true(is_resident(run.base + at));
  }
  unit_release(run.base, units, false);
  unit_trim();
}

static void units_come_from_the_warm_pool_first(void **state) {
  (void)state;
  unit_trim();
  struct unit_run first = unit_acquire(3, UNIT_BYTES);
  assert_non_null(first.base);
  unit_release(first.base, 3, false);
  if (option_value(WARM_POOL_MB) < 8) return; /* a pool too small to keep it: nothing to see */
  assert_int_equal(unit_figures().units_warm, 3);
  uint64_t mapped = atomic_load(&os_counts.mmap);
  struct unit_run part = unit_acquire(1, UNIT_BYTES);
  struct unit_run rest = unit_acquire(2, UNIT_BYTES);
  assert_int_equal(atomic_load(&os_counts.mmap), mapped);
  assert_true(part.base >= first.base && part.base < first.base + 3 * UNIT_BYTES);
  assert_true(rest.base >= first.base && rest.base < first.base + 3 * UNIT_BYTES);
  assert_int_equal(unit_figures().units_warm, 0);
  unit_release(part.base, 1, false);
  unit_release(rest.base, 2, false);
  assert_int_equal(unit_figures().units_warm, 3);
  assert_int_equal(unit_trim(), 3 * UNIT_BYTES);
  assert_int_equal(unit_figures().units_warm, 0);
}

/* As an explicit huge page is: known as such on every way, and never given back in parts. (They are ordinary pages
 * here, which behave the same when they are given back whole.) */
static void explicit_huge_pages_stay_known(void **state) {
  (void)state;
  if (option_value(WARM_POOL_MB) < 8 || option_value(SS_MEM_LEAN)) return;
  unit_trim();
  struct unit_run run = unit_acquire(3, UNIT_BYTES);
  assert_non_null(run.base);
  memset(run.base, 1, 3 * UNIT_BYTES);
  unit_release(run.base, 2, true);
  unit_release(run.base + 2 * UNIT_BYTES, 1, false);
  struct unit_run ordinary =
      unit_acquire(1, UNIT_BYTES); /* the shorter run: they were not joined */
  assert_false(ordinary.huge_pages);
  bool zeroed;
  struct superslab *huge = huge_acquire(2 * UNIT_BYTES, UNIT_BYTES, &zeroed);
  assert_ptr_equal(huge->base, run.base);
  assert_true(huge->explicit_pages && !zeroed);
  assert_ptr_equal(huge_resize(huge, huge->base, UNIT_BYTES), huge); /* one goes back */
  struct slab *span = span_acquire(4, 1, KIND_LARGE, PAGES_SMALL, COUNTED_LARGE, &zeroed);
  struct superslab *superslab = superslab_of(span);
  assert_ptr_equal(superslab->base, run.base + UNIT_BYTES);
  assert_true(superslab->explicit_pages && !zeroed);
  assert_false(superslab_may_split(superslab, SLICES_PER_UNIT - 4, true));
  struct dirty_cursor cursor = {0};
  struct dirty_slices set;
  size_t young = 0;
  while (superslab_take_dirty(&cursor, 0, &set, 1, &young) > 0) {
    assert_ptr_not_equal(set.superslab, superslab);
    superslab_put_clean(set, false);
  }
  span_release(span);
  assert_true(huge_release(huge, run.base));
  struct unit_run again = unit_acquire(2, UNIT_BYTES);
  assert_ptr_equal(again.base, run.base);
  assert_true(again.huge_pages);
  unit_give_up(again.base, 2, true);
  unit_give_up(ordinary.base, 1, false);
}

/* Pages are to be moved into them: those of the pool would be lost. */
static void reserved_units_leave_the_warm_pool_alone(void **state) {
  (void)state;
  unit_trim();
  struct unit_run warm = unit_acquire(3, UNIT_BYTES);
  assert_non_null(warm.base);
  unit_release(warm.base, 3, false);
  struct unit_stats before = unit_figures();
  struct unit_run run = unit_reserve(2, 2);
  assert_non_null(run.base);
  assert_true(run.zeroed && is_aligned(run.base, UNIT_BYTES));
  assert_true(block_is_zero(run.base, 2 * UNIT_BYTES));
  assert_int_equal(unit_figures().units_warm, before.units_warm);
  assert_int_equal(unit_figures().bytes_mapped, before.bytes_mapped + 2 * UNIT_BYTES);
  unit_release(run.base, 2, false);
  unit_trim();
  assert_int_equal(unit_figures().bytes_mapped,
                   before.bytes_mapped - before.units_warm * UNIT_BYTES);
}

static void units_refuse_what_no_address_space_holds(void **state) {
  (void)state;
  assert_null(unit_acquire(0, UNIT_BYTES).base);
  assert_null(unit_acquire(MAP_LEAVES * LEAF_UNITS, UNIT_BYTES).base);
  assert_null(unit_acquire(SIZE_MAX >> UNIT_SHIFT, UNIT_BYTES).base);
  assert_null(unit_acquire(SIZE_MAX, UNIT_BYTES).base);
}

/* --- spans ---------------------------------------------------------------------------------------- */

enum { SPANS = 300 };

struct held_span {
  struct slab *span; /* NULL: none */
  unsigned slices;
  uint64_t seed;
};

static struct superslab_stats span_figures(void) {
  struct superslab_stats stats;
  superslab_stats_get(&stats, true);
  /* The running count that calls the release engine, and what a walk finds. */
  assert_int_equal(superslab_dirty_bytes(), stats.dirty_bytes);
  return stats;
}

static void check_span(const struct held_span *held) {
  assert_int_equal(held->span->slices, held->slices);
  assert_int_equal(held->span->offset, 0);
  char *base = slab_base(held->span);
  for (unsigned i = 0; i < held->slices; i++) {
    const struct slab *slice = map_slab(base + ((size_t)i << SLICE_SHIFT));
    assert_ptr_equal(slice, held->span + i);
    assert_int_equal(slice->offset, i);
    assert_null(map_bin(base + ((size_t)i << SLICE_SHIFT)));
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

/* --- huge blocks ---------------------------------------------------------------------------------- */

static void huge_blocks_keep_their_bytes_when_resized(void **state) {
  (void)state;
  uint64_t random = 31;
  struct superslab_stats before = span_figures();
  uint64_t mapped = unit_figures().bytes_mapped - unit_figures().units_warm * UNIT_BYTES;
  for (int round = 0; round < 5 * EFFORT; round++) {
    bool zeroed = false;
    size_t bytes = MIB + random_below(&random, 12 * MIB);
    size_t alignment = UNIT_BYTES << random_below(&random, 4);
    struct superslab *huge = huge_acquire(bytes, alignment, &zeroed);
    assert_non_null(huge);
    assert_true(is_aligned(huge->base, alignment));
    assert_true(huge->huge_usable >= bytes);
    assert_true(huge->huge_usable <= (size_t)huge->huge_units << UNIT_SHIFT);
    assert_ptr_equal(map_superslab(huge->base), huge);
    if (zeroed) assert_true(block_is_zero(huge->base, bytes));
    fill_block(huge->base, bytes, (uint64_t)round);
    for (int step = 0; step < 6; step++) {
      size_t next = MIB + random_below(&random, 24 * MIB);
      struct superslab *resized = huge_resize(huge, huge->base, next);
      if (resized == NULL) { /* not possible in place or by moving: as it was */
        assert_true(next > bytes);
        assert_true(block_is_filled(huge->base, bytes, (uint64_t)round));
        continue;
      }
      huge = resized;
      assert_ptr_equal(map_superslab(huge->base), huge);
      assert_true(huge->huge_usable >= next);
      assert_true(huge->huge_usable <= (size_t)huge->huge_units << UNIT_SHIFT);
      assert_true(block_is_filled(huge->base, bytes < next ? bytes : next, (uint64_t)round));
      bytes = next;
      fill_block(huge->base, bytes, (uint64_t)round);
    }
    char *base = huge->base;
    size_t units = huge->huge_units;
    for (size_t u = 0; u < units; u++)
      assert_ptr_equal(map_superslab(base + (u << UNIT_SHIFT)), huge);
    assert_int_equal(span_figures().huge_live, before.huge_live + 1);
    assert_true(huge_release(huge, huge->base));
    for (size_t u = 0; u < units; u++) assert_null(map_superslab(base + (u << UNIT_SHIFT)));
  }
  struct superslab_stats after = span_figures();
  assert_int_equal(after.huge_live, before.huge_live);
  assert_int_equal(after.huge_bytes, before.huge_bytes);
  assert_int_equal(unit_figures().bytes_mapped - unit_figures().units_warm * UNIT_BYTES, mapped);
}

/* The pages move: nothing is copied, so nothing is left for the warm pool. */
static void huge_blocks_move_when_they_cannot_grow_in_place(void **state) {
  (void)state;
  static const size_t sizes[] = {3 * MIB, 5 * MIB + 1, 8 * MIB, 20 * MIB - 5};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    bool zeroed;
    unit_trim();
    struct superslab *huge = huge_acquire(sizes[i], UNIT_BYTES, &zeroed);
    assert_non_null(huge);
    char *base = huge->base, *end = base + ((size_t)huge->huge_units << UNIT_SHIFT);
    fill_block(base, sizes[i], i);
    /* Fails when something else lies there already, which is as good. */
    void *blocker =
        mmap(end, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    struct superslab *moved = huge_resize(huge, huge->base, 2 * sizes[i]);
    assert_non_null(moved);
    assert_ptr_not_equal(moved->base, base);
    assert_null(map_superslab(base));
    assert_true(block_is_filled(moved->base, sizes[i], i));
    assert_int_equal(unit_figures().units_warm, 0);
    /* And once more, from what the first move made. */
    fill_block(moved->base, 2 * sizes[i], i);
    end = moved->base + ((size_t)moved->huge_units << UNIT_SHIFT);
    void *second =
        mmap(end, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    huge = huge_resize(moved, moved->base, 5 * sizes[i]);
    assert_non_null(huge);
    assert_true(block_is_filled(huge->base, 2 * sizes[i], i));
    assert_true(huge_release(huge, huge->base));
    if (blocker != MAP_FAILED) munmap(blocker, 4096);
    if (second != MAP_FAILED) munmap(second, 4096);
  }
}

static void the_second_free_is_told(void **state) {
  (void)state;
  bool zeroed;
  struct superslab *huge = huge_acquire(3 * MIB, UNIT_BYTES, &zeroed);
  assert_non_null(huge);
  char *base = huge->base;
  assert_true(huge_release(huge, base));
  assert_false(huge_release(huge, base));
  struct span_cache cache = {0};
  struct slab *keeps_the_superslab = span_acquire(1, 1, KIND_LARGE, false, COUNTED_LARGE, &zeroed);
  void *cached = large_allocate(&cache, 200 * KIB, 16, &zeroed);
  void *direct = large_allocate(NULL, 300 * KIB, 16, &zeroed);
  assert_true(keeps_the_superslab != NULL && cached != NULL && direct != NULL);
  assert_true(large_free(&cache, map_slab(cached)));
  assert_false(large_free(&cache, map_slab(cached)));
  assert_true(large_free(NULL, map_slab(direct)));
  assert_false(large_free(NULL, map_slab(direct)));
  assert_int_equal(cache.count, 1);
  span_cache_flush(&cache);
  span_release(keeps_the_superslab);
}

static void huge_blocks_of_any_alignment(void **state) {
  (void)state;
  for (size_t alignment = 16; alignment <= GIB; alignment *= 2) {
    bool zeroed;
    struct superslab *huge = huge_acquire(3 * MIB, alignment, &zeroed);
    assert_non_null(huge);
    assert_true(is_power_of_two(alignment) && is_aligned(huge->base, alignment));
    assert_true(huge_release(huge, huge->base));
  }
  bool zeroed;
  assert_null(huge_acquire(SIZE_MAX / 2, UNIT_BYTES, &zeroed));
  assert_null(huge_acquire(SIZE_MAX - UNIT_BYTES - 1, UNIT_BYTES, &zeroed));
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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(map_finds_a_unit_by_any_of_its_bytes),
      cmocka_unit_test(map_has_no_bin_for_foreign_addresses),
      cmocka_unit_test(map_enters_nothing_beyond_its_root),
      cmocka_unit_test(units_on_both_sides_of_a_leafs_end_are_entered),
      cmocka_unit_test(metadata_is_zeroed_aligned_and_apart),
      cmocka_unit_test(units_are_aligned_apart_and_what_they_say),
      cmocka_unit_test(prewarmed_units_are_resident_and_come_first),
      cmocka_unit_test(units_come_from_the_warm_pool_first),
      cmocka_unit_test(explicit_huge_pages_stay_known),
      cmocka_unit_test(reserved_units_leave_the_warm_pool_alone),
      cmocka_unit_test(units_refuse_what_no_address_space_holds),
      cmocka_unit_test(spans_do_not_overlap),
      cmocka_unit_test(spans_fill_superslabs),
      cmocka_unit_test(huge_blocks_keep_their_bytes_when_resized),
      cmocka_unit_test(huge_blocks_move_when_they_cannot_grow_in_place),
      cmocka_unit_test(the_second_free_is_told),
      cmocka_unit_test(huge_blocks_of_any_alignment),
      cmocka_unit_test(the_span_cache_gives_back_what_it_took),
      cmocka_unit_test(
          metadata_lies_between_guard_pages), /* last: makes a SuperSlab that has room */
  };
  return cmocka_run_group_tests_name("superslab", tests, start, NULL);
}
