/* long_runs_assembled.c - long runs of units that unit_acquire makes of short ones in the warm pool,
 * also while the kernel refuses; and huge blocks on top of them. */
#include "unit_test.h"

#include <errno.h>
#include <inttypes.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "os/fault.h"
#include "policy/options.h"
#include "superslab/map.h"
#include "superslab/unit.h"

WITHOUT_SAMPLES;

static int start(void **state) {
  (void)state;
  options_at_start();
  SET_OPTION(WARM_POOL_DECAY_MS, VERY_LONG_MS);
  return 0;
}

/* --- what there is ---------------------------------------------------------------------------- */

static struct unit_stats figures(void) {
  struct unit_stats stats;
  unit_stats_get(&stats);
  return stats;
}

static size_t warm_units(void) { return (size_t)figures().units_warm; }

static size_t mapped_units(void) { return (size_t)(figures().bytes_mapped >> UNIT_SHIFT); }

/* What the kernel says, of the first page of a unit and of the last. */
static bool is_mapped(char *unit) {
  size_t page = os_page_size();
  bool first = msync(unit, page, MS_ASYNC) == 0;
  assert_int_equal(first, msync(unit + UNIT_BYTES - page, page, MS_ASYNC) == 0);
  return first;
}

/* As a kernel may do that finds out late that it has to refuse: the place of the n-th move from
 * now on is unmapped, and nothing moved. 0: none. */
static size_t clear_and_refuse;

/* As kernels before 6.17: more than one mapping is refused, when the place is unmapped already. */
static bool one_mapping_a_call;

static bool is_one_mapping(const void *from, size_t bytes) {
  uintptr_t first = (uintptr_t)from, low, high;
  bool found = false;
  char line[512];
  FILE *maps = fopen("/proc/self/maps", "re");
  if (maps == NULL) abort();
  while (!found && fgets(line, sizeof line, maps) != NULL)
    found = sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &low, &high) == 2 && low <= first &&
            first + bytes <= high;
  fclose(maps);
  return found;
}

/* The linker calls it so. */
long __real_call_mremap(void *from, size_t from_bytes, size_t to_bytes, int flags, void *to);
long __wrap_call_mremap(void *from, size_t from_bytes, size_t to_bytes, int flags, void *to);
long __wrap_call_mremap(void *from, size_t from_bytes, size_t to_bytes, int flags, void *to) {
  if (clear_and_refuse > 0 && --clear_and_refuse == 0) {
    munmap(to, to_bytes);
    return -ENOMEM;
  }
  if (one_mapping_a_call && !is_one_mapping(from, from_bytes)) {
    munmap(to, to_bytes);
    return -EFAULT;
  }
  return __real_call_mremap(from, from_bytes, to_bytes, flags, to);
}

/* A run that was cut into pieces: some are in the pool, each unit of them filled with a byte of
 * its own, and between two of them lies a unit that is not. */
enum { PIECES_MOST = 12, SCATTERED_MOST = 32 };

struct scattered {
  char *base;
  size_t units; /* with those between */
  size_t warm;
  bool held[SCATTERED_MOST];
  size_t mapped_before;
};

static unsigned char tag_of(size_t unit) { return (unsigned char)(unit + 1); }

static struct scattered scatter(const size_t *lengths, size_t count) {
  struct scattered s = {0};
  unit_trim();
  s.mapped_before = mapped_units();
  for (size_t i = 0; i < count; i++) s.warm += lengths[i];
  s.units = s.warm + count;
  assert_true(s.units <= SCATTERED_MOST);
  s.base = unit_acquire(s.units, UNIT_BYTES).base;
  assert_non_null(s.base);
  for (size_t unit = 0; unit < s.units; unit++)
    memset(s.base + (unit << UNIT_SHIFT), tag_of(unit), UNIT_BYTES);
  size_t at = 0;
  for (size_t i = 0; i < count; i++) {
    unit_release(s.base + (at << UNIT_SHIFT), lengths[i], false, 0);
    at += lengths[i];
    s.held[at++] = true;
  }
#if HAK_FAST
  s.warm = warm_units(); /* the pool's size is a constant there */
#endif
  assert_int_equal(warm_units(), s.warm);
  return s;
}

/* The accounts are those of the kernel: of the scattered units those are mapped that are held or
 * in the pool, which holds nothing else. A run may lie where others were given back. */
static void check_accounts(const struct scattered *s, const char *run, size_t run_units) {
  size_t held = 0, mapped = 0;
  for (size_t i = 0; i < s->units; i++) {
    char *unit = s->base + (i << UNIT_SHIFT);
    if (run != NULL && unit >= run && unit < run + (run_units << UNIT_SHIFT)) {
      assert_false(s->held[i]);
      continue;
    }
    held += s->held[i];
    mapped += is_mapped(unit);
    assert_true(!s->held[i] || is_mapped(unit));
  }
  if (run == NULL) run_units = 0;
  assert_int_equal(mapped, held + warm_units());
  assert_int_equal(mapped_units(), s->mapped_before + mapped + run_units);
}

static void give_up(struct scattered *s, char *run, size_t run_units) {
  if (run != NULL) unit_release(run, run_units, false, 0);
  for (size_t unit = 0; unit < s->units; unit++)
    if (s->held[unit]) unit_release(s->base + (unit << UNIT_SHIFT), 1, false, 0);
  unit_trim();
  assert_int_equal(warm_units(), 0);
  assert_int_equal(mapped_units(), s->mapped_before);
  for (size_t unit = 0; unit < s->units; unit++)
    assert_false(is_mapped(s->base + (unit << UNIT_SHIFT)));
  for (size_t unit = 0; run != NULL && unit < run_units; unit++)
    assert_false(is_mapped(run + (unit << UNIT_SHIFT)));
}

/* The pages of `units` units are written to, byte by byte; returns how many of them were not
 * there. */
__attribute__((no_sanitize_address, no_sanitize_thread)) static size_t
write_all(char *base, size_t units, unsigned char value) {
  struct rusage before, after;
  getrusage(RUSAGE_SELF, &before);
  volatile uint64_t *words = (volatile uint64_t *)(void *)base;
  for (size_t i = 0; i < (units << UNIT_SHIFT) / 8; i++) words[i] = value * 0x0101010101010101u;
  getrusage(RUSAGE_SELF, &after);
  return (size_t)(after.ru_minflt - before.ru_minflt);
}

/* How many units at the front of a run are units of the pool; the others read as zero, none is
 * there twice. */
static size_t check_run(const struct scattered *s, const struct unit_run *run, size_t units) {
  bool seen[SCATTERED_MOST] = {false};
  size_t filled = 0;
  for (size_t i = 0; i < units; i++) {
    const unsigned char *bytes = (unsigned char *)run->base + (i << UNIT_SHIFT);
    assert_int_equal(memcmp(bytes, bytes + 1, UNIT_BYTES - 1), 0);
    if (bytes[0] == 0) continue;
    assert_int_equal(filled++, i);
    size_t unit = (size_t)bytes[0] - 1;
    assert_true(unit < s->units && !s->held[unit] && !seen[unit]);
    seen[unit] = true;
  }
  assert_true(filled == 0 || !run->zeroed);
  write_all(run->base, units, 0xee);
  return filled;
}

/* --- a long run out of short ones ------------------------------------------------------------- */

static void a_long_run_is_made_of_short_ones(void **state) {
  (void)state;
  const size_t lengths[] = {1, 3, 2};
  enum { WANTED = 8, FILLED = 6 };
  static const size_t expected[FILLED] = {2, 3, 4, 6, 7, 0}; /* the longest first */
  struct scattered s = scatter(lengths, 3);
  uint64_t moves = atomic_load(&os_counts.mremap), maps = atomic_load(&os_counts.mmap);
  struct unit_run run = unit_acquire(WANTED, UNIT_BYTES);
  assert_non_null(run.base);
  assert_false(run.zeroed);
  assert_int_equal(atomic_load(&os_counts.mremap) - moves, FILLED);
  assert_true(atomic_load(&os_counts.mmap) - maps >= 1); /* more where it came unaligned */
  assert_int_equal(warm_units(), 0);
  for (size_t i = 0; i < FILLED; i++)
    assert_int_equal((unsigned char)run.base[i << UNIT_SHIFT], tag_of(expected[i]));
  check_accounts(&s, run.base, WANTED);
  /* Their pages came along: far less than a fault a page. */
  assert_true(write_all(run.base, FILLED, 1) < FILLED * UNIT_BYTES / os_page_size() / 8);
  for (size_t i = 0; i < FILLED; i++)
    memset(run.base + (i << UNIT_SHIFT), tag_of(expected[i]), UNIT_BYTES);
  assert_int_equal(check_run(&s, &run, WANTED), FILLED);
  give_up(&s, run.base, WANTED);
}

static void what_is_too_much_stays_in_the_pool(void **state) {
  (void)state;
  const size_t lengths[] = {3, 3};
  struct scattered s = scatter(lengths, 2);
  struct unit_run run = unit_acquire(4, UNIT_BYTES);
  assert_non_null(run.base);
  assert_int_equal(warm_units(), 2);
  check_accounts(&s, run.base, 4);
  assert_int_equal(check_run(&s, &run, 4), 4);
  uint64_t maps = atomic_load(&os_counts.mmap);
  struct unit_run rest = unit_acquire(2, UNIT_BYTES);
  assert_int_equal(atomic_load(&os_counts.mmap), maps);
  assert_true(rest.base + 2 * UNIT_BYTES <= run.base || rest.base >= run.base + 4 * UNIT_BYTES);
  assert_int_equal(check_run(&s, &rest, 2), 2); /* not written to through the run */
  unit_release(rest.base, 2, false, 0);
  give_up(&s, run.base, 4);
}

static void check_filled(const char *units, const size_t *expected, size_t count) {
  for (size_t i = 0; i < count; i++)
    assert_int_equal((unsigned char)units[i << UNIT_SHIFT], tag_of(expected[i]));
}

/* What a block grows by gets pages of the pool, be it elsewhere or in place; the units that its own pages move
 * into do not. */
static void growth_takes_pages_of_the_pool(void **state) {
  (void)state;
  const size_t lengths[] = {1, 3, 2};
  enum { OWN = 2, FILLED = 6, WANTED = OWN + FILLED + 1 };
  static const size_t expected[FILLED] = {2, 3, 4, 6, 7, 0};
  struct scattered s = scatter(lengths, 3);
  struct unit_run moved = unit_reserve(WANTED, OWN, 0);
  assert_non_null(moved.base);
  assert_int_equal(moved.used, FILLED);
  assert_int_equal(warm_units(), 0);
  check_accounts(&s, moved.base, WANTED);
  assert_true(block_is_zero(moved.base, OWN * UNIT_BYTES));
  check_filled(moved.base + OWN * UNIT_BYTES, expected, FILLED);
  assert_true(block_is_zero(moved.base + (WANTED - 1) * UNIT_BYTES, UNIT_BYTES));
  give_up(&s, moved.base, WANTED);

  struct unit_run run = unit_reserve(WANTED, WANTED, 0);
  assert_non_null(run.base);
  s = scatter(lengths, 3);
  char *end = run.base + OWN * UNIT_BYTES;
  unit_give_up(end, WANTED - OWN, false); /* there is room now */
  s.mapped_before -= WANTED - OWN;
  assert_true(unit_extend(end, FILLED + 1, 0, run.node));
  assert_int_equal(warm_units(), 0);
  check_accounts(&s, end, FILLED + 1);
  check_filled(end, expected, FILLED);
  assert_true(block_is_zero(end + FILLED * UNIT_BYTES, UNIT_BYTES));
  give_up(&s, end, FILLED + 1);
  unit_give_up(run.base, OWN, false);
}

/* No more than 8 pieces are put together, and nothing where the start has to be aligned to more. */
static void not_everything_is_put_together(void **state) {
  (void)state;
  const size_t lengths[PIECES_MOST] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  SET_OPTION(WARM_POOL_DECAY_MS, 0); /* as many as there are */
  struct scattered s = scatter(lengths, PIECES_MOST);
  uint64_t moves = atomic_load(&os_counts.mremap);
  struct unit_run aligned = unit_acquire(PIECES_MOST, 4 * UNIT_BYTES);
  assert_non_null(aligned.base);
  assert_int_equal(atomic_load(&os_counts.mremap), moves);
  assert_int_equal(check_run(&s, &aligned, PIECES_MOST), 0);
  check_accounts(&s, aligned.base, PIECES_MOST);
  struct unit_run run = unit_acquire(PIECES_MOST, UNIT_BYTES);
  assert_non_null(run.base);
  assert_int_equal(atomic_load(&os_counts.mremap) - moves, 8);
  assert_int_equal(warm_units(), s.warm - 8);
  assert_int_equal(check_run(&s, &run, PIECES_MOST), 8);
  unit_release(aligned.base, PIECES_MOST, false, 0);
  unit_trim();
  check_accounts(&s, run.base, PIECES_MOST);
  give_up(&s, run.base, PIECES_MOST);
  SET_OPTION(WARM_POOL_DECAY_MS, VERY_LONG_MS);
}

/* --- when the kernel refuses ------------------------------------------------------------------ */

static const size_t fault_lengths[] = {2, 1, 1};
enum { FAULT_LENGTHS = 3, FAULT_UNITS = 4, FAULT_WANTED = 6 };

/* Acquires, with whatever faults are set, and checks everything; returns how many units of the
 * pool the run has, or -1: there is none. */
static int acquire_under_faults(struct scattered *s, struct unit_run *run, uint64_t *injected) {
  errno = 4711;
  *run = unit_acquire(FAULT_WANTED, UNIT_BYTES);
  *injected = os_fault_injected();
  os_fault_reset();
  clear_and_refuse = 0;
  assert_int_equal(errno, 4711);
  check_accounts(s, run->base, FAULT_WANTED);
  if (run->base == NULL) return -1;
  for (size_t unit = 0; unit < FAULT_WANTED; unit++)
    assert_true(is_mapped(run->base + (unit << UNIT_SHIFT)));
  int filled = (int)check_run(s, run, FAULT_WANTED);
  assert_int_equal(run->zeroed, filled == 0);
  check_accounts(s, run->base, FAULT_WANTED);
  return filled;
}

/* What the pool has comes out of it unit by unit, each once and as it says it is. */
static void check_what_is_left(const struct scattered *s) {
  struct unit_run left[FAULT_UNITS];
  size_t count = warm_units();
  uint64_t maps = atomic_load(&os_counts.mmap);
  assert_true(count <= FAULT_UNITS);
  for (size_t i = 0; i < count; i++) {
    left[i] = unit_acquire(1, UNIT_BYTES);
    check_run(s, &left[i], 1); /* fails for one that it wrote to before */
  }
  assert_int_equal(atomic_load(&os_counts.mmap), maps);
  for (size_t i = 0; i < count; i++) unit_release(left[i].base, 1, false, 0);
}

static void one_refused_call_is_got_over(void **state) {
  (void)state;
  uint64_t injected = 1;
  bool moved[FAULT_UNITS + 1] = {false};
  for (uint64_t n = 1; injected > 0; n++) {
    struct unit_run run;
    struct scattered s = scatter(fault_lengths, FAULT_LENGTHS);
    os_fault_fail_nth(n);
    int filled = acquire_under_faults(&s, &run, &injected);
    assert_in_range(filled, 0, FAULT_UNITS);
    moved[filled] = true;
    /* The pages that could not come along went to the kernel, which has them once. */
    assert_true(filled == FAULT_UNITS || injected > 0);
    give_up(&s, run.base, FAULT_WANTED);
  }
  /* Refused was the mapping or the first move, the second, the third, the fourth; or none of
   * them. */
  for (size_t filled = 0; filled <= FAULT_UNITS; filled++) assert_true(moved[filled]);
}

static void a_move_refused_late_leaves_no_hole(void **state) {
  (void)state;
  for (size_t n = 1; n <= FAULT_UNITS; n++) {
    struct unit_run run;
    uint64_t injected;
    struct scattered s = scatter(fault_lengths, FAULT_LENGTHS);
    clear_and_refuse = n;
    assert_int_equal(acquire_under_faults(&s, &run, &injected), n - 1);
    give_up(&s, run.base, FAULT_WANTED);
  }
}

static void nothing_is_lost_when_all_calls_are_refused(void **state) {
  (void)state;
  uint64_t injected = 1;
  int none = 0;
  for (uint64_t n = 1; injected > 0; n++) {
    struct unit_run run;
    struct scattered s = scatter(fault_lengths, FAULT_LENGTHS);
    os_fault_fail_from(n);
    int filled = acquire_under_faults(&s, &run, &injected);
    if (filled < 0) {
      none++;
      assert_int_equal(warm_units(), FAULT_UNITS);
      run = unit_acquire(FAULT_WANTED, UNIT_BYTES);
      assert_non_null(run.base);
      assert_int_equal(check_run(&s, &run, FAULT_WANTED), FAULT_UNITS);
    }
    check_what_is_left(&s);
    give_up(&s, run.base, FAULT_WANTED);
  }
  assert_true(none > 0);
}

static void nothing_is_lost_when_some_calls_are_refused(void **state) {
  (void)state;
  uint64_t refused = 0;
  for (uint32_t seed = 1; seed <= 60; seed++) {
    struct unit_run run;
    uint64_t injected;
    struct scattered s = scatter(fault_lengths, FAULT_LENGTHS);
    os_fault_random(seed, 100 + 10 * seed);
    acquire_under_faults(&s, &run, &injected);
    check_what_is_left(&s);
    refused += injected;
    give_up(&s, run.base, FAULT_WANTED);
  }
  assert_true(refused > 60);
}

/* The kernel says no when it has cleared the place, and no again when the place is to be mapped anew. */
static void a_hole_is_not_handed_out(void **state) {
  (void)state;
  for (size_t n = 1; n <= FAULT_UNITS; n++) {
    struct unit_run run;
    uint64_t injected;
    struct scattered s = scatter(fault_lengths, FAULT_LENGTHS);
    os_fault_fail_nth(1 + n + 1); /* the mapping, n moves, and this */
    clear_and_refuse = n;
    assert_true(acquire_under_faults(&s, &run, &injected) >= 0);
    assert_int_equal(injected, 1);
    give_up(&s, run.base, FAULT_WANTED);
  }
}

/* --- huge blocks ------------------------------------------------------------------------------ */

/* Of three freed ones a longer one is made, which can move and shrink as any other. */
static void huge_blocks_are_made_of_freed_ones(void **state) {
  (void)state;
  enum { SMALL = 3 };
  struct superslab *freed[SMALL], *between[SMALL];
  char *was_at[SMALL];
  bool zeroed;
  unit_trim();
  size_t mapped = mapped_units();
  for (int i = 0; i < SMALL; i++) {
    freed[i] = huge_acquire(2 * MIB, UNIT_BYTES, &zeroed);
    between[i] = huge_acquire(2 * MIB, UNIT_BYTES, &zeroed);
    assert_true(freed[i] != NULL && between[i] != NULL);
    was_at[i] = freed[i]->base;
    memset(was_at[i], 1 + i, 2 * MIB);
  }
  for (int i = 0; i < SMALL; i++) assert_true(huge_release(freed[i], was_at[i]));
  uint64_t moves = atomic_load(&os_counts.mremap);
  size_t bytes = 7 * MIB + 1, longer = 21 * MIB;
  struct superslab *huge = huge_acquire(bytes, UNIT_BYTES, &zeroed);
  assert_non_null(huge);
  assert_int_equal(atomic_load(&os_counts.mremap) - moves, SMALL);
  assert_false(zeroed);
  for (size_t offset = 0; offset < bytes; offset += SLICE_BYTES)
    assert_ptr_equal(map_superslab(huge->base + offset), huge);
  for (int i = 0; i < SMALL; i++)
    assert_true(map_superslab(was_at[i]) == NULL || map_superslab(was_at[i]) == huge);
  fill_block(huge->base, bytes, 77);
  assert_true(huge_release(between[0], between[0]->base));
  /* Fails when something else lies there already, which is as good. */
  char *end = huge->base + ((size_t)huge->huge_units << UNIT_SHIFT);
  void *blocker =
      mmap(end, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  struct superslab *moved = huge_resize(huge, huge->base, longer);
  assert_non_null(moved);
  assert_int_equal(warm_units(), 0); /* it grew by that one, too */
  assert_true(block_is_filled(moved->base, bytes, 77));
  fill_block(moved->base, longer, 78);
  moved = huge_resize(moved, moved->base, bytes);
  assert_true(block_is_filled(moved->base, bytes - 8, 78));
  assert_true(huge_release(moved, moved->base));
  for (int i = 1; i < SMALL; i++) assert_true(huge_release(between[i], between[i]->base));
  if (blocker != MAP_FAILED) munmap(blocker, 4096);
  unit_trim();
  assert_int_equal(mapped_units(), mapped);
}

static void huge_blocks_move_on_old_kernels(void **state) {
  one_mapping_a_call = true;
  huge_blocks_are_made_of_freed_ones(state);
  /* The last unit, which is partly used, may be a mapping of its own (no huge pages there). */
  bool zeroed;
  struct superslab *huge = huge_acquire(5 * MIB, UNIT_BYTES, &zeroed);
  assert_non_null(huge);
  fill_block(huge->base, 5 * MIB, 79);
  char *end = huge->base + ((size_t)huge->huge_units << UNIT_SHIFT);
  void *blocker =
      mmap(end, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  huge = huge_resize(huge, huge->base, 20 * MIB);
  assert_non_null(huge);
  assert_true(block_is_filled(huge->base, 5 * MIB, 79));
  fill_block(huge->base, 20 * MIB, 80);
  assert_true(huge_release(huge, huge->base));
  if (blocker != MAP_FAILED) munmap(blocker, 4096);
  one_mapping_a_call = false;
}

/* --- what the program does again and again ---------------------------------------------------- */

/* The last test: the pool does not forget. A program that has 80 MiB replaces 40 of them all the
 * time. */
static void what_is_replaced_all_the_time_stays(void **state) {
  (void)state;
  enum { KEPT = 40, REPLACED = 20 };
  unit_trim();
  struct unit_run kept = unit_acquire(KEPT, UNIT_BYTES);
  struct unit_run run = unit_acquire(REPLACED, UNIT_BYTES);
  assert_true(kept.base != NULL && run.base != NULL);
  uint64_t before;
  do { /* again if this process was stopped for long */
    before = os_clock_ms();
    unit_release(run.base, REPLACED, false, 0);
    assert_int_equal(warm_units(), 0); /* more than the pool takes at first */
    run = unit_acquire(REPLACED, UNIT_BYTES);
    assert_non_null(run.base);
  } while (os_clock_ms() - before > 500);
  unit_release(run.base, REPLACED, false, 0);
  assert_int_equal(warm_units(), REPLACED);
  uint64_t maps = atomic_load(&os_counts.mmap);
  run = unit_acquire(REPLACED, UNIT_BYTES);
  assert_int_equal(atomic_load(&os_counts.mmap), maps);
  unit_release(run.base, REPLACED, false, 0);
  unit_release(kept.base, KEPT, false, 0); /* too much */
  assert_int_equal(warm_units(), REPLACED);
  unit_trim();
  assert_int_equal(warm_units(), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_long_run_is_made_of_short_ones),
      cmocka_unit_test(what_is_too_much_stays_in_the_pool),
      cmocka_unit_test(growth_takes_pages_of_the_pool),
      cmocka_unit_test(not_everything_is_put_together),
      cmocka_unit_test(one_refused_call_is_got_over),
      cmocka_unit_test(a_move_refused_late_leaves_no_hole),
      cmocka_unit_test(nothing_is_lost_when_all_calls_are_refused),
      cmocka_unit_test(nothing_is_lost_when_some_calls_are_refused),
      cmocka_unit_test(huge_blocks_are_made_of_freed_ones),
      cmocka_unit_test(huge_blocks_move_on_old_kernels),
      cmocka_unit_test(a_hole_is_not_handed_out),
      cmocka_unit_test(what_is_replaced_all_the_time_stays),
  };
  return cmocka_run_group_tests_name("long runs assembled", tests, start, NULL);
}
