/* guards_and_places.c - hardened: what guards leave behind, and where units lie. That guards stop a program: tests/api/guard_pages. */
#include "smaps.h"
#include "superslab/map.h"
#include "superslab_figures.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/wait.h>
#include <ucontext.h>

#include "large/large.h"
#include "observe/counters.h"
#include "policy/options.h"
#include "slab/slab.h"
#include "superslab/guard_pages.h"
#include "superslab/random_place.h"
#include "superslab/warm.h"

WITHOUT_SAMPLES;

/* As kernels before 6.13, which know of no guards: each is a mapping of its own. */
static bool old_kernel;

/* The linker calls it so. */
long __real_call_madvise(void *address, size_t bytes, int advice);
long __wrap_call_madvise(void *address, size_t bytes, int advice);
long __wrap_call_madvise(void *address, size_t bytes, int advice) {
  if (old_kernel && (advice == 102 || advice == 103)) return -EINVAL;
  return __real_call_madvise(address, bytes, advice);
}

static int start(void **state) {
  (void)state;
  options_at_start();
  SET_OPTION(GUARD, GUARD_LIGHT);
  SET_OPTION(WARM_POOL_DECAY_MS, VERY_LONG_MS);
  return 0;
}

static int with_full(void **state) {
  (void)state;
  SET_OPTION(GUARD, GUARD_FULL);
  return 0;
}

/* Can every page be written? By a system call, which says so instead of ending the program. */
static bool is_open(char *from, size_t bytes) {
  int ends[2];
  bool open = true;
  if (pipe(ends) != 0) abort();
  for (size_t at = 0; at < bytes && open; at += os_page_size()) {
    if (write(ends[1], "x", 1) != 1) abort();
    open = read(ends[0], from + at, 1) == 1;
    char left;
    if (!open && read(ends[0], &left, 1) != 1) abort();
  }
  close(ends[0]);
  close(ends[1]);
  return open;
}

static bool all_closed(char *from, size_t bytes) {
  for (size_t at = 0; at < bytes; at += os_page_size())
    if (is_open(from + at, os_page_size())) return false;
  return true;
}

static size_t mappings(void) {
  FILE *maps = fopen("/proc/self/maps", "re");
  assert_non_null(maps);
  size_t lines = 0;
  for (int c; (c = fgetc(maps)) != EOF;) lines += c == '\n';
  fclose(maps);
  return lines;
}

/* --- Huge blocks ------------------------------------------------------------------------------------ */

/* 64 KiB in front, and as much behind the block as there is: closed while the block lives, at whatever length. */
static void check_huge(const struct superslab *huge) {
  char *base = huge->base, *end = base + ((size_t)huge->huge_units << UNIT_SHIFT);
  char *behind = base + huge_guard_at(huge);
  assert_true(huge->fenced);
  assert_true(behind + os_page_size() <= end);
  size_t guard = end - behind < (ptrdiff_t)SLICE_BYTES ? (size_t)(end - behind) : SLICE_BYTES;
  assert_true(end - behind <= (ptrdiff_t)UNIT_BYTES);
  assert_true(all_closed(base - SLICE_BYTES, SLICE_BYTES));
  assert_true(is_open(base, huge_guard_at(huge)));
  assert_true(all_closed(behind, guard));
  assert_true(is_open(behind + guard, (size_t)(end - behind) - guard));
  assert_null(map_superslab(base - 1));
}

/* What served a Huge block has both guards, all else none. */
static void check_pool(void) {
  for (size_t i = 0; i < unit_pool.count; i++) {
    const struct warm_run *run = &unit_pool.runs[i];
    char *end = run->base + (run->units << UNIT_SHIFT);
    if (run->fenced == 0) {
      assert_true(is_open(run->base, run->units << UNIT_SHIFT));
      continue;
    }
    char *block = run->base + UNIT_BYTES, *behind = block + run->fenced;
    size_t guard = end - behind < (ptrdiff_t)SLICE_BYTES ? (size_t)(end - behind) : SLICE_BYTES;
    assert_true(guard >= os_page_size());
    assert_true(all_closed(block - SLICE_BYTES, SLICE_BYTES));
    assert_true(is_open(block, run->fenced));
    assert_true(all_closed(behind, guard));
  }
}

static void huge_blocks_keep_their_guards_at_every_size(void **state) {
  (void)state;
  uint64_t random = 5;
  unit_trim();
  uint64_t mapped = unit_figures().bytes_mapped;
  for (int round = 0; round < 12; round++) {
    bool zeroed;
    size_t bytes = MIB + random_below(&random, 3) * MIB + random_below(&random, 2) * 4095;
    size_t alignment = UNIT_BYTES << random_below(&random, 3);
    struct superslab *huge = huge_acquire(bytes, alignment, &zeroed);
    assert_non_null(huge);
    assert_true(is_aligned(huge->base, alignment));
    if (zeroed) assert_true(block_is_zero(huge->base, bytes));
    check_huge(huge);
    assert_int_equal(huge->huge_usable, round_to_page(bytes));
    fill_block(huge->base, bytes, (uint64_t)round);
    for (int step = 0; step < 4; step++) {
      size_t next = MIB + random_below(&random, 6) * MIB + random_below(&random, 2) * 4095;
      huge = huge_resize(huge, huge->base, next);
      assert_non_null(huge);
      assert_true(block_is_filled(huge->base, next < bytes ? next : bytes, (uint64_t)round));
      check_huge(huge);
      bytes = next;
      fill_block(huge->base, bytes, (uint64_t)round);
      check_pool();
    }
    assert_true(huge_release(huge, huge->base));
    check_pool();
  }
  unit_trim();
  assert_int_equal(unit_figures().bytes_mapped, mapped);
}

static uint64_t system_calls(void) {
  return atomic_load(&os_counts.madvise) + atomic_load(&os_counts.mprotect) +
         atomic_load(&os_counts.mmap) + atomic_load(&os_counts.munmap);
}

static void the_warm_pool_keeps_guards(void **state) {
  (void)state;
  bool zeroed;
  size_t bytes = 3 * MIB - 5 * KIB;
  unit_trim();
  struct superslab *huge = huge_acquire(bytes, UNIT_BYTES, &zeroed);
  char *base = huge->base;
  assert_true(huge_release(huge, base));
  uint64_t before = system_calls();
  for (size_t i = 0; i < 500; i++) {
    /* As long, or half a MiB shorter. */
    size_t shorter = bytes - i * KIB;
    huge = huge_acquire(shorter, UNIT_BYTES, &zeroed);
    assert_ptr_equal(huge->base, base);
    assert_false(zeroed);
    assert_true(huge_release(huge, base));
  }
  assert_int_equal(system_calls(), before);
  /* Longer, in as many units: the guard behind it is moved. */
  huge = huge_acquire(bytes + 500 * KIB, UNIT_BYTES, &zeroed);
  assert_ptr_equal(huge->base, base);
  check_huge(huge);
  assert_true(huge_release(huge, base));
  check_pool();
}

/* Two of the three units of such a block are for its guards alone. With them counted the pool would have room for two. */
static void guards_alone_use_up_no_budget(void **state) {
  (void)state;
  enum { BLOCKS = 6 };
  struct superslab *huge[BLOCKS];
  bool zeroed;
  unit_trim();
  for (int i = 0; i < BLOCKS; i++) huge[i] = huge_acquire(UNIT_BYTES, UNIT_BYTES, &zeroed);
  for (int i = 0; i < BLOCKS; i++) assert_true(huge_release(huge[i], huge[i]->base));
  assert_int_equal(unit_pool.count, BLOCKS);
  assert_int_equal(unit_pool.bare, 2 * BLOCKS);
  check_pool();
  unit_trim();
  assert_int_equal(unit_pool.bare, 0);
}

/* Page by page: each step would move the guard. Each unit, that of a former guard too, may become a huge page. */
static void a_block_grows_with_few_system_calls(void **state) {
  (void)state;
  bool zeroed;
  unit_trim();
  size_t bytes = 3 * MIB, page = os_page_size(), steps = 0;
  struct superslab *huge = huge_acquire(bytes, UNIT_BYTES, &zeroed);
  uint64_t before = system_calls();
  for (; bytes < 40 * MIB; bytes += page, steps++) {
    huge = huge_resize(huge, huge->base, bytes + page);
    assert_non_null(huge);
    assert_int_equal(huge->huge_usable, bytes + page);
    memset(huge->base + bytes, (int)steps, page);
  }
  assert_true(steps > 500 && system_calls() - before < 200);
  check_huge(huge);
  for (size_t unit = 4; unit < bytes >> UNIT_SHIFT; unit++)
    assert_true(mapping_has_flag(huge->base + (unit << UNIT_SHIFT), " hg"));
  for (size_t i = 0; i < steps; i++)
    assert_int_equal(huge->base[3 * MIB + i * page + 1], (char)i); /* is_open writes to the first */
  assert_true(huge_release(huge, huge->base));
  check_pool();
}

static bool is_part(const char *base, const char *unit) {
  return unit >= base && unit < base + 3 * UNIT_BYTES;
}

static void units_with_guards_serve_all_else(void **state) {
  (void)state;
  bool zeroed;
  unit_trim();
  struct superslab *huge = huge_acquire(5 * MIB, UNIT_BYTES, &zeroed);
  char *base = huge->base;
  fill_block(base, 5 * MIB, 3);
  assert_true(huge_release(huge, base));
  uint64_t mapped = unit_figures().bytes_mapped;
  struct unit_run units[3];
  for (int i = 0; i < 3; i++) {
    units[i] = unit_acquire(1, UNIT_BYTES);
    assert_true(is_part(base, units[i].base) && !units[i].from_os);
    assert_true(is_open(units[i].base, UNIT_BYTES));
  }
  /* The unit that lay in front of the block is gone, and so is that of the guard behind it. */
  assert_int_equal(unit_figures().bytes_mapped, mapped - 2 * UNIT_BYTES);
  assert_int_equal(unit_pool.count, 0);
  for (int i = 0; i < 3; i++) unit_release(units[i].base, 1, false, 0);
  /* Another block of guarded units becomes pieces of a longer one. */
  huge = huge_acquire(5 * MIB, UNIT_BYTES, &zeroed);
  assert_true(huge_release(huge, huge->base));
  huge = huge_acquire(20 * MIB, UNIT_BYTES, &zeroed);
  assert_non_null(huge);
  assert_int_equal(unit_pool.units, 0);
  check_huge(huge);
  assert_true(huge_release(huge, huge->base));
  unit_trim();
  check_pool();
}

/* --- Large blocks ----------------------------------------------------------------------------------- */

static void check_large(char *block, size_t bytes) {
  struct slab *span = map_slab(block);
  size_t usable = span_usable(span), all = (size_t)span->slices << SLICE_SHIFT;
  size_t more = bytes / 4 > SLICE_BYTES ? bytes / 4 : SLICE_BYTES, page = os_page_size();
  bool light = option_value(GUARD) == GUARD_LIGHT;
  assert_true(usable >= bytes && usable % page == 0 && usable < all);
  assert_true(usable - bytes < page + (light ? 0 : more));
  assert_true(all - usable <= page + SLICE_BYTES + more);
  size_t open = light ? all - page : usable;
  assert_true(is_open(block, open));
  assert_true(all_closed(block + open, all - open));
  assert_true(all_closed(block - os_page_size(), os_page_size()));
  assert_true(superslab_of(span)->fenced && span->index > 0);
  assert_true(all_closed(superslab_of(span)->base, SLICE_BYTES));
}

static void large_blocks_keep_their_guards_at_every_size(void **state) {
  (void)state;
  enum { BLOCKS = 40 };
  struct {
    char *block;
    size_t bytes;
  } held[BLOCKS] = {0};
  struct span_cache cache = {0};
  uint64_t random = 7;
  uint64_t live = span_figures().live;
  for (int step = 0; step < 1500; step++) {
    int i = (int)random_below(&random, BLOCKS);
    bool zeroed;
    size_t bytes = 65 * KIB + random_below(&random, LARGE_MAX - 65 * KIB);
    if (random_below(&random, 3) == 0) bytes &= ~(size_t)(SLICE_BYTES - 1);
    if (held[i].block == NULL) {
      size_t alignment =
          random_below(&random, 6) == 0 ? SLICE_BYTES << random_below(&random, 4) : 16;
      held[i].block = large_allocate(&cache, bytes, alignment, &zeroed);
      assert_non_null(held[i].block);
      assert_true(is_aligned(held[i].block, alignment));
      if (zeroed) assert_true(block_is_zero(held[i].block, bytes));
    } else if (random_below(&random, 2) == 0) {
      assert_true(block_is_filled(held[i].block, held[i].bytes, (uint64_t)i));
      if (!large_resize(map_slab(held[i].block), bytes)) bytes = held[i].bytes;
      size_t kept = bytes < held[i].bytes ? bytes : held[i].bytes;
      assert_true(block_is_filled(held[i].block, kept, (uint64_t)i));
    } else {
      assert_true(block_is_filled(held[i].block, held[i].bytes, (uint64_t)i));
      assert_true(
          large_free(random_below(&random, 3) == 0 ? NULL : &cache, map_slab(held[i].block)));
      held[i].block = NULL;
      continue;
    }
    held[i].bytes = bytes;
    check_large(held[i].block, bytes);
    fill_block(held[i].block, bytes, (uint64_t)i);
  }
  for (int i = 0; i < BLOCKS; i++)
    if (held[i].block != NULL) assert_true(large_free(NULL, map_slab(held[i].block)));
  span_cache_flush(&cache);
  assert_int_equal(span_figures().live, live);
  check_pool();
}

static void the_cache_makes_no_system_calls(void **state) {
  (void)state;
  struct span_cache cache = {0};
  bool zeroed;
  char *block = large_allocate(&cache, 300 * KIB, 16, &zeroed);
  assert_true(large_free(&cache, map_slab(block)));
  uint64_t before = atomic_load(&os_counts.madvise) + atomic_load(&os_counts.mprotect);
  for (size_t i = 0; i < 1000; i++) {
    /* As long, or shorter in as many slices; and it grows and shrinks in them. */
    char *again = large_allocate(&cache, 300 * KIB - i % 40 * KIB, 16, &zeroed);
    assert_ptr_equal(again, block);
    assert_true(large_resize(map_slab(again), 270 * KIB + i % 40 * KIB));
    assert_int_equal(span_usable(map_slab(again)), round_to_page(270 * KIB + i % 40 * KIB));
    assert_true(large_free(&cache, map_slab(again)));
  }
  assert_int_equal(atomic_load(&os_counts.madvise) + atomic_load(&os_counts.mprotect), before);
  span_cache_flush(&cache);
}

/* --- slabs ------------------------------------------------------------------------------------------ */

static void slabs_end_with_a_guard(void **state) {
  (void)state;
  enum { SLABS = 60 };
  struct slab *spans[SLABS];
  uint64_t random = 11;
  size_t page = os_page_size();
  for (int round = 0; round < 6; round++) {
    for (int i = 0; i < SLABS; i++) {
      bool zeroed;
      unsigned slices = 1u << random_below(&random, 4);
      spans[i] = span_acquire(slices, 1, KIND_SLAB, PAGES_SMALL, 0, &zeroed);
      assert_non_null(spans[i]);
      assert_false(superslab_of(spans[i])->fenced);
      spans[i]->touched = slices << SLICE_SHIFT;
      char *base = slab_base(spans[i]);
      assert_int_equal(span_usable(spans[i]), ((size_t)slices << SLICE_SHIFT) - page);
      assert_true(is_open(base, span_usable(spans[i])));
      assert_true(all_closed(base + span_usable(spans[i]), page));
    }
    for (int i = 0; i < SLABS; i++) span_release(spans[i]);
    check_pool();
  }
}

/* What the library is told a page has; 0: the truth. */
static size_t told_page;
size_t __real_os_page_size(void);
size_t __wrap_os_page_size(void);
size_t __wrap_os_page_size(void) { return told_page != 0 ? told_page : __real_os_page_size(); }

/* Where a page is a slice, a guard would leave nothing of a slab of one slice. */
static void slabs_have_no_guard_where_pages_are_slices(void **state) {
  (void)state;
  told_page = SLICE_BYTES;
  struct slab *slab = slab_new(class_for(8 * KIB), NULL, PAGES_SMALL);
  told_page = 0;
  assert_non_null(slab);
  assert_int_equal(slab->slices, 1);
  assert_int_equal(slab->capacity, SLICE_BYTES / (8 * KIB));
  assert_true(is_open(slab_base(slab), SLICE_BYTES));
  slab_release(slab);
  superslab_settle();
}

/* --- places ----------------------------------------------------------------------------------------- */

enum { UNITS = 200 };

static void units_lie_apart_in_one_window(void **state) {
  (void)state;
  static struct unit_run runs[UNITS];
  char *lowest = NULL, *highest = NULL;
  size_t adjacent = 0;
  unit_trim();
  for (int i = 0; i < UNITS; i++) {
    runs[i] = unit_acquire(1, UNIT_BYTES);
    assert_non_null(runs[i].base);
    if (lowest == NULL || runs[i].base < lowest) lowest = runs[i].base;
    if (runs[i].base > highest) highest = runs[i].base;
  }
  for (int i = 0; i < UNITS; i++)
    for (int j = 0; j < UNITS; j++) adjacent += runs[i].base + UNIT_BYTES == runs[j].base;
  assert_in_range(highest - lowest, 16 * GIB, 64 * GIB);
  assert_true(adjacent < UNITS / 20); /* about one is expected */
  for (int i = 0; i < UNITS; i++) unit_give_up(runs[i].base, 1, false);
}

static void mappings_are_bounded(void **state) {
  (void)state;
  enum { BLOCKS = 600 };
  static void *blocks[BLOCKS];
  unit_trim();
  size_t before = mappings();
  uint64_t mapped = unit_figures().bytes_mapped;
  for (size_t i = 0; i < BLOCKS; i++) {
    bool zeroed;
    blocks[i] = large_allocate(NULL, i % 3 == 0 ? 2 * MIB + i : (70 + i) * KIB, 16, &zeroed);
    assert_non_null(blocks[i]);
  }
  size_t units = (size_t)(unit_figures().bytes_mapped - mapped) >> UNIT_SHIFT;
  /* One for each run of units, and the leaves of the map. Where guards are mappings of their own, up to 64 a unit. */
  assert_true(mappings() - before <= units * (os_guards_cut() ? 65 : 1) + 64);
  for (size_t i = 0; i < BLOCKS; i++) {
    struct superslab *superslab = map_superslab(blocks[i]);
    if (superslab->huge_units != 0) assert_true(huge_release(superslab, blocks[i]));
    else assert_true(large_free(NULL, map_slab(blocks[i])));
  }
  unit_trim();
}

/* Two processes: this program twice more, and once by fork. */
static uintptr_t place_in_another(const char *program, const char *how) {
  char command[300], text[100];
  snprintf(command, sizeof command, "%s %s", program, how);
  FILE *output = popen(command, "re");
  if (output == NULL || fgets(text, sizeof text, output) == NULL) abort();
  pclose(output);
  return (uintptr_t)strtoull(text, NULL, 16);
}

static const char *program;

static void guards_are_as_the_kernel_can(void **state) {
  (void)state;
  if (old_kernel) assert_true(os_guards_cut());
}

static void processes_place_differently(void **state) {
  (void)state;
  uintptr_t first = place_in_another(program, "place"), second = place_in_another(program, "place");
  assert_true(first != 0 && second != 0);
  assert_int_not_equal(first, second);
}

/* A stack in the first 4 GiB looks as if the program had little address space. */
static void processes_with_low_stacks_place_differently(void **state) {
  (void)state;
#ifdef MAP_32BIT
  uintptr_t first = place_in_another(program, "place low"),
            second = place_in_another(program, "place low");
  assert_true(first != 0 && second != 0);
  assert_int_not_equal(first, second);
#endif
}

static void print_place(void) {
  printf("%" PRIxPTR "\n", (uintptr_t)unit_acquire(1, UNIT_BYTES).base);
}

static void print_place_from_low_stack(void) {
#ifdef MAP_32BIT
  static ucontext_t here, there;
  enum { STACK_BYTES = 256 * KIB };
  void *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
  if (stack == MAP_FAILED || getcontext(&there) != 0) abort();
  there.uc_stack = (stack_t){.ss_sp = stack, .ss_size = STACK_BYTES};
  there.uc_link = &here;
  makecontext(&there, print_place, 0);
  if (swapcontext(&here, &there) != 0) abort();
#endif
}

static void a_child_places_differently(void **state) {
  (void)state;
  int ends[2];
  char *theirs = NULL;
  unit_trim();
  if (pipe(ends) != 0) abort();
  pid_t child = fork();
  if (child == 0) {
    superslab_fork_child(); /* there are no handlers here */
    theirs = unit_acquire(1, UNIT_BYTES).base;
    _exit(write(ends[1], &theirs, sizeof theirs) == sizeof theirs ? 0 : 1);
  }
  assert_int_equal(read(ends[0], &theirs, sizeof theirs), sizeof theirs);
  waitpid(child, NULL, 0);
  close(ends[0]);
  close(ends[1]);
  struct unit_run ours = unit_acquire(1, UNIT_BYTES);
  assert_true(theirs != NULL && ours.base != theirs);
  unit_give_up(ours.base, 1, false);
}

static void without_the_option_there_is_none_of_it(void **state) {
  (void)state;
  bool zeroed;
  int32_t guard = option_value(GUARD);
  SET_OPTION(GUARD, GUARD_OFF);
  assert_null(random_place_map(UNIT_BYTES, UNIT_BYTES, 0));
  struct superslab *huge = huge_acquire(3 * MIB, UNIT_BYTES, &zeroed);
  assert_false(huge->fenced);
  assert_int_equal(huge->huge_units, 2);
  assert_true(is_open(huge->base, 2 * UNIT_BYTES));
  assert_true(huge_release(huge, huge->base));
  char *large = large_allocate(NULL, 100 * KIB, 16, &zeroed);
  assert_int_equal(span_usable(map_slab(large)), 2 * SLICE_BYTES);
  assert_true(is_open(large, 2 * SLICE_BYTES));
  assert_true(large_free(NULL, map_slab(large)));
  SET_OPTION(GUARD, guard);
}

int main(int argc, char **argv) {
  old_kernel = argc > 1 && strcmp(argv[1], "old") == 0;
  if (argc > 1 && !old_kernel) {
    options_read();
    if (argc > 2) print_place_from_low_stack();
    else print_place();
    return 0;
  }
  program = argv[0];
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(without_the_option_there_is_none_of_it),
      cmocka_unit_test(huge_blocks_keep_their_guards_at_every_size),
      cmocka_unit_test(the_warm_pool_keeps_guards),
      cmocka_unit_test(guards_alone_use_up_no_budget),
      cmocka_unit_test(a_block_grows_with_few_system_calls),
      cmocka_unit_test(units_with_guards_serve_all_else),
      cmocka_unit_test(large_blocks_keep_their_guards_at_every_size),
      cmocka_unit_test(the_cache_makes_no_system_calls),
      cmocka_unit_test(units_lie_apart_in_one_window),
      cmocka_unit_test(mappings_are_bounded),
      cmocka_unit_test(guards_are_as_the_kernel_can),
      cmocka_unit_test(processes_place_differently),
      cmocka_unit_test(processes_with_low_stacks_place_differently),
      cmocka_unit_test(a_child_places_differently),
      cmocka_unit_test_setup(large_blocks_keep_their_guards_at_every_size, with_full),
      cmocka_unit_test_setup(huge_blocks_keep_their_guards_at_every_size, with_full),
      cmocka_unit_test_setup(slabs_have_no_guard_where_pages_are_slices, with_full),
      cmocka_unit_test_setup(slabs_end_with_a_guard, with_full),
  };
  return cmocka_run_group_tests_name("guards and places", tests, start, NULL);
}
