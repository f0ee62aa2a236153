/* mappings.c - how many mappings units are, against a plain model; and units that are kept where there are too many. */
#include "many_mappings.h"
#include "superslab_figures.h"

#include <string.h>

#include "os/fault.h"
#include "policy/options.h"
#include "superslab/dense.h"

WITHOUT_SAMPLES;

enum { MODEL_UNITS = 600 };
static uint8_t model[MODEL_UNITS]; /* enum mapping; KEPT besides */
enum { KEPT = 8 };

/* They lie on both sides of a border of leaves. */
static char *address_of(size_t unit) {
  return many_unit(0) + (unit << UNIT_SHIFT) - (MODEL_UNITS / 2 * UNIT_BYTES);
}

static int start(void **state) {
  (void)state;
  options_read();
  return map_prepare(address_of(0) - UNIT_BYTES, MODEL_UNITS + 2) ? 0 : -1;
}

static size_t mappings_of_model(void) {
  size_t found = 0;
  for (size_t i = 0; i < MODEL_UNITS; i++) {
    uint8_t before = i > 0 ? model[i - 1] & 7 : MAPPING_NONE, here = model[i] & 7;
    found += here != MAPPING_NONE && here != before;
  }
  return found;
}

static size_t kept_of_model(void) {
  size_t found = 0;
  for (size_t i = 0; i < MODEL_UNITS; i++) found += (model[i] & KEPT) != 0;
  return found;
}

static bool is_free_of_kept(size_t unit, size_t units) {
  for (size_t i = unit; i < unit + units; i++)
    if ((model[i] & KEPT) != 0) return false;
  return true;
}

static size_t longest_kept(void) {
  size_t longest = 0, length = 0;
  for (size_t i = 0; i < MODEL_UNITS; i++) {
    length = (model[i] & KEPT) != 0 ? length + 1 : 0;
    if (length > longest) longest = length;
  }
  return longest;
}

static void take(size_t units) {
  bool huge = false, any = false;
  char *base = mappings_take(units, &huge);
  assert_int_equal(base != NULL, longest_kept() >= units);
  if (base == NULL) return;
  size_t unit = (size_t)(base - address_of(0)) >> UNIT_SHIFT;
  assert_true(unit + units <= MODEL_UNITS);
  for (size_t i = unit; i < unit + units; i++) {
    assert_true((model[i] & KEPT) != 0);
    model[i] &= 7;
    any = any || model[i] == MAPPING_HUGE;
  }
  assert_int_equal(huge, any);
}

static void unmap_all(void) {
  char *cursor = NULL, *base;
  size_t units;
  while (mappings_take_to_unmap(&cursor, &base, &units, MAPPINGS_MOST)) {
    size_t unit = (size_t)(base - address_of(0)) >> UNIT_SHIFT;
    assert_true(unit + units <= MODEL_UNITS && units > 0);
    assert_true(unit == 0 || (model[unit - 1] & KEPT) == 0);
    assert_true(unit + units == MODEL_UNITS || (model[unit + units] & KEPT) == 0);
    for (size_t i = unit; i < unit + units; i++) {
      assert_true((model[i] & KEPT) != 0);
      model[i] = MAPPING_NONE;
    }
  }
  assert_int_equal(kept_of_model(), 0);
}

static void mappings_are_counted_as_in_the_model(void **state) {
  (void)state;
  size_t others = mappings_count();
  uint64_t random = 5;
  for (int step = 0; step < 20000 * EFFORT; step++) {
    size_t unit = random_below(&random, MODEL_UNITS);
    size_t units = 1 + random_below(&random, random_below(&random, 8) == 0 ? 400 : 5);
    if (unit + units > MODEL_UNITS) units = MODEL_UNITS - unit;
    unsigned what = (unsigned)random_below(&random, 100);
    if (what < 60 && is_free_of_kept(unit, units)) {
      enum mapping place = (enum mapping)random_below(&random, MAPPING_MOVED + 1);
      if (what < 30) mappings_set(address_of(unit), units, place);
      else assert_true(mappings_change(address_of(unit), units, place));
      memset(model + unit, (int)place, units);
    } else if (what < 80 && is_free_of_kept(unit, units)) {
      assert_true(mappings_keep(address_of(unit), units));
      for (size_t i = unit; i < unit + units; i++) model[i] |= KEPT;
    } else if (what < 99) {
      take(units);
    } else {
      unmap_all();
    }
    assert_int_equal(mappings_count() - others, mappings_of_model());
    assert_int_equal(mappings_kept(), kept_of_model());
  }
  unmap_all();
  mappings_set(address_of(0), MODEL_UNITS, MAPPING_NONE);
  assert_int_equal(mappings_count(), others);
}

static void more_than_the_most_is_refused(void **state) {
  (void)state;
  many_fill_up();
  assert_false(mappings_have_room());
  size_t beyond = 2 * MAPPINGS_MOST + 8;
  assert_false(mappings_change(many_unit(beyond), 1, MAPPING_PLAIN));
  assert_true(mappings_change(many_unit(1), 1, MAPPING_PLAIN)); /* joins two */
  assert_true(mappings_change(many_unit(beyond), 1, MAPPING_PLAIN));
  assert_false(mappings_change(many_unit(1), 1, MAPPING_HUGE));
  mappings_set(many_unit(1), 1, MAPPING_HUGE); /* that is, where the kernel has done so already */
  assert_int_equal(mappings_count(), MAPPINGS_MOST + 2);
  many_empty();
}

static bool is_mapped(char *unit) { return msync(unit, os_page_size(), MS_ASYNC) == 0; }

/* Newly mapped ones. */
static struct unit_run acquire_three(void) {
  unit_trim();
  struct unit_run run = unit_acquire(3, UNIT_BYTES);
  assert_non_null(run.base);
  return run;
}

static void units_stay_mapped_where_there_are_too_many(void **state) {
  (void)state;
  struct unit_run run = acquire_three();
  char *middle = run.base + UNIT_BYTES;
  memset(run.base, 1, 3 * UNIT_BYTES);
  uint64_t mapped = unit_figures().bytes_mapped;
  many_fill_up();
  unit_give_up(middle, 1, false);
  assert_true(is_mapped(middle) && !is_resident(middle) &&
              !is_resident(middle + UNIT_BYTES - os_page_size()));
  assert_int_equal(mappings_kept(), 1);
  assert_int_equal(unit_figures().bytes_mapped, mapped);

  /* It is handed out before others are mapped. */
  uint64_t calls = atomic_load(&os_counts.mmap);
  struct unit_run again = unit_acquire(1, UNIT_BYTES);
  assert_ptr_equal(again.base, middle);
  assert_true(again.zeroed && again.from_os && again.used == 0);
  assert_int_equal(atomic_load(&os_counts.mmap), calls);
  assert_true(block_is_zero(middle, UNIT_BYTES));
  assert_int_equal(mappings_kept(), 0);

  /* Its neighbours: no more mappings, or less. */
  unit_give_up(middle, 1, false);
  unit_give_up(run.base, 1, false);
  unit_give_up(middle + UNIT_BYTES, 1, false);
  unit_trim();
  assert_false(is_mapped(run.base) || is_mapped(middle) || is_mapped(middle + UNIT_BYTES));
  assert_int_equal(mappings_kept(), 0);
  assert_int_equal(unit_figures().bytes_mapped, mapped - 3 * UNIT_BYTES);
  many_empty();
}

/* By what is unmapped beside it, at no mapping's cost. */
static void kept_units_go_with_their_neighbours(void **state) {
  (void)state;
  for (int side = 0; side < 2; side++) {
    struct unit_run run = acquire_three();
    char *middle = run.base + UNIT_BYTES;
    uint64_t mapped = unit_figures().bytes_mapped;
    many_fill_up();
    unit_give_up(middle, 1, false);
    assert_int_equal(mappings_kept(), 1);
    many_empty();
    unit_give_up(side == 0 ? run.base : middle + UNIT_BYTES, 1, false);
    assert_false(is_mapped(middle));
    assert_int_equal(mappings_kept(), 0);
    assert_int_equal(unit_figures().bytes_mapped, mapped - 2 * UNIT_BYTES);
    unit_give_up(side == 0 ? middle + UNIT_BYTES : run.base, 1, false);
  }
}

/* Once there are less, what was kept goes by itself. */
static void kept_units_go_when_there_is_room(void **state) {
  (void)state;
  struct unit_run run = acquire_three();
  char *middle = run.base + UNIT_BYTES;
  many_fill_up();
  unit_give_up(middle, 1, false);
  unit_age();
  assert_true(is_mapped(middle));
  many_empty();
  unit_age();
  assert_false(is_mapped(middle));
  unit_give_up(run.base, 1, false);
  unit_give_up(middle + UNIT_BYTES, 1, false);
}

/* Where the system refuses memory, address space that is kept may be what is missing. */
static void kept_units_go_where_memory_is_refused(void **state) {
  (void)state;
  struct unit_run run = acquire_three();
  char *middle = run.base + UNIT_BYTES;
  many_fill_up();
  unit_give_up(middle, 1, false);
  assert_true(is_mapped(middle));
  os_fault_fail_nth(1);
  struct unit_run other = unit_acquire(2, UNIT_BYTES);
  os_fault_reset();
  assert_non_null(other.base);
  assert_int_equal(mappings_kept(), 0);
  many_empty();
  unit_give_up(other.base, 2, false);
  unit_give_up(run.base, 1, false);
  unit_give_up(middle + UNIT_BYTES, 1, false);
}

/* Pages do not move between mappings then, neither unit by unit nor all at once: realloc copies. */
static void blocks_are_copied_where_there_are_too_many(void **state) {
  (void)state;
  /* Long enough to be one mapping: of a shorter one a unit may be a sample, whose pages are advised apart (dense.h). */
  const size_t units = DENSE_UNITS_MOST + 1;
  unit_trim();
  bool zeroed;
  struct superslab *block = huge_acquire(units * UNIT_BYTES, UNIT_BYTES, &zeroed);
  assert_non_null(block);
  char *base = block->base, *end = base + units * UNIT_BYTES;
  memset(base, 7, units * UNIT_BYTES);
  struct superslab *moved = NULL;
  many_fill_up();
  /* Where the units behind it are free it grows in place; others are put there first. */
  void *wall =
      mmap(end, UNIT_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  moved = huge_resize(block, base, (units + 1) * UNIT_BYTES);
  assert_null(moved);
  assert_int_equal(base[0] + end[-1], 14);
  many_empty();
  moved = huge_resize(block, base, (units + 1) * UNIT_BYTES);
  assert_non_null(moved);
  assert_int_equal(moved->base[0] + moved->base[units * UNIT_BYTES - 1], 14);
  assert_true(huge_release(moved, moved->base));
  if (wall != MAP_FAILED) munmap(wall, UNIT_BYTES);
  unit_trim();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(mappings_are_counted_as_in_the_model),
      cmocka_unit_test(more_than_the_most_is_refused),
      cmocka_unit_test(units_stay_mapped_where_there_are_too_many),
      cmocka_unit_test(kept_units_go_with_their_neighbours),
      cmocka_unit_test(kept_units_go_when_there_is_room),
      cmocka_unit_test(kept_units_go_where_memory_is_refused),
      cmocka_unit_test(blocks_are_copied_where_there_are_too_many),
  };
  return cmocka_run_group_tests_name("mappings", tests, start, NULL);
}
