/* warm_pool.c - the warm pool by itself: against a simple model of it, and how much it keeps. */
#include "unit_test.h"

#include "policy/options.h"
#include "superslab/warm.h"

WITHOUT_SAMPLES;

static int start(void **state) {
  (void)state;
  options_at_start();
  SET_OPTION(WARM_POOL_DECAY_MS, VERY_LONG_MS);
  return 0;
}

/* --- the pool and its model ------------------------------------------------------------------- */

/* The pool reads no byte of its units, so any addresses do. */
enum { MODEL_UNITS = 300, FIRST_UNIT = 0x10000 };
enum { OUTSIDE = 0xff }; /* else flags: 1 zeroed, 2 huge pages, 4 lazily freed */

static struct warm_pool pool;
static uint8_t model[MODEL_UNITS];

static char *address_of(size_t unit) { return (char *)((FIRST_UNIT + unit) << UNIT_SHIFT); }

static size_t unit_of(const char *base) { return ((uintptr_t)base >> UNIT_SHIFT) - FIRST_UNIT; }

static uint8_t flags_of(const struct warm_run *run) {
  return (uint8_t)(run->zeroed | run->huge_pages << 1 | run->lazily_freed << 2);
}

/* Length of the longest stretch with the same flags that starts at `unit`; 0: outside the pool,
 * or not the start of one. */
static size_t stretch_at(size_t unit) {
  if (model[unit] == OUTSIDE || (unit > 0 && model[unit - 1] == model[unit])) return 0;
  size_t length = 1;
  while (unit + length < MODEL_UNITS && model[unit + length] == model[unit]) length++;
  return length;
}

static void check_pool(void) {
  size_t stretches = 0, units = 0;
  for (size_t unit = 0; unit < MODEL_UNITS; unit++) {
    stretches += stretch_at(unit) != 0;
    units += model[unit] != OUTSIDE;
  }
  assert_int_equal(pool.units, units);
  assert_int_equal(pool.count, stretches); /* with the lengths below: all that touch are joined */
  for (size_t i = 0; i < pool.count; i++) {
    const struct warm_run *run = &pool.runs[i];
    assert_int_equal(run->units, stretch_at(unit_of(run->base)));
    assert_int_equal(flags_of(run), model[unit_of(run->base)]);
  }
}

static void leaves(const struct warm_run *run) {
  size_t first = unit_of(run->base);
  assert_true(run->units > 0 && first + run->units <= MODEL_UNITS);
  for (size_t unit = first; unit < first + run->units; unit++) {
    assert_int_equal(model[unit], flags_of(run));
    model[unit] = OUTSIDE;
  }
}

static void insert_some(uint64_t *random) {
  static uint64_t now;
  size_t first = random_below(random, MODEL_UNITS);
  size_t longest = 1 + (random_below(random, 4) == 0 ? random_below(random, 12) : 0), units = 0;
  while (units < longest && first + units < MODEL_UNITS && model[first + units] == OUTSIDE) units++;
  if (units == 0) return;
  if (warm_is_full(&pool)) {
    struct warm_run removed = warm_remove(&pool, random_below(random, pool.count));
    leaves(&removed);
  }
  /* Mostly the same flags, so that there is something to join. */
  uint8_t flags = (uint8_t)(random_below(random, 3) == 0 ? random_below(random, 8) : 0);
  struct warm_run run = {.base = address_of(first),
                         .units = units,
                         .since_ms = ++now,
                         .zeroed = flags & 1,
                         .huge_pages = flags & 2,
                         .lazily_freed = flags & 4};
  memset(&model[first], flags, units);
  warm_insert(&pool, run);
}

static bool is_aligned_unit(size_t unit, size_t alignment) {
  return is_aligned(address_of(unit), alignment);
}

static bool take_some(uint64_t *random) {
  size_t units = 1 + random_below(random, 8);
  size_t alignment = UNIT_BYTES << (random_below(random, 3) == 0 ? random_below(random, 4) : 0);
  size_t shortest = 0;
  for (size_t unit = 0; unit < MODEL_UNITS; unit++) {
    size_t length = stretch_at(unit);
    if (length >= units && is_aligned_unit(unit, alignment) && (shortest == 0 || length < shortest))
      shortest = length;
  }
  struct warm_run run;
  bool taken = warm_take(&pool, units, alignment, 0, &run);
  assert_int_equal(taken, shortest != 0);
  if (!taken) return false;
  assert_int_equal(run.units, units);
  assert_true(is_aligned(run.base, alignment));
  /* Off the end of a shortest one that fits; off its front where the alignment matters. */
  size_t first = unit_of(run.base);
  if (alignment == UNIT_BYTES) first -= shortest - units;
  assert_int_equal(stretch_at(first), shortest);
  leaves(&run);
  return true;
}

static void take_pieces(uint64_t *random) {
  struct warm_run pieces[6];
  size_t wanted = 1 + random_below(random, 40), most = 1 + random_below(random, 6);
  size_t taken = warm_take_pieces(&pool, wanted, 0, pieces, most), units = 0;
  assert_true(taken <= most);
  for (size_t i = 0; i < taken; i++) {
    assert_false(pieces[i].huge_pages);
    assert_true(i == 0 || pieces[i].units <= pieces[i - 1].units);
    units += pieces[i].units;
    leaves(&pieces[i]);
    /* None that stays is longer, but what this one may have been cut from. */
    for (size_t unit = 0; i + 1 < taken && unit < MODEL_UNITS; unit++)
      if (model[unit] == OUTSIDE || (model[unit] & 2) == 0)
        assert_true(stretch_at(unit) <= pieces[i].units);
  }
  assert_true(units <= wanted);
  for (size_t unit = 0; units < wanted && taken < most && unit < MODEL_UNITS; unit++)
    assert_true(model[unit] == OUTSIDE || (model[unit] & 2) != 0);
}

static void joins_and_cuts_lose_no_unit(void **state) {
  (void)state;
  uint64_t random = 61;
  int taken = 0, was_full = 0;
  memset(model, OUTSIDE, sizeof model);
  for (int step = 0; step < 20000; step++) {
    /* Now more goes in, now more comes out. */
    uint64_t choice = random_below(&random, step / 500 % 2 == 0 ? 20 : 6);
    if (choice == 0) take_pieces(&random);
    else if (choice <= 2) taken += take_some(&random);
    else insert_some(&random);
    check_pool();
    was_full += warm_is_full(&pool);
  }
  assert_true(taken > 1000 && was_full > 100); /* else it was no test */
}

/* --- how much it keeps ------------------------------------------------------------------------ */

enum { FIRST_BUDGET = 8 }; /* 16 MiB */

static struct warm_run run_at(size_t unit, size_t units, uint64_t since_ms) {
  return (struct warm_run){.base = address_of(unit), .units = units, .since_ms = since_ms};
}

/* `units` are asked for `ms` after the pool gave up as many as it says. */
static void missed_after(struct warm_pool *of, size_t units, size_t in_use, uint64_t ms) {
  const struct warm_pool before = *of;
  uint64_t now;
  do { /* again if this process was stopped in between: it counts seconds */
    *of = before;
    now = os_clock_ms();
    of->evicted_ms = now - ms;
    warm_missed(of, units, in_use);
  } while (os_clock_ms() - now > 500);
}

static void the_budget_grows_by_regret_alone(void **state) {
  (void)state;
  struct warm_pool p = {0};
  assert_int_equal(warm_budget(&p), FIRST_BUDGET);
  missed_after(&p, 100, 1000, 0); /* nothing was given up */
  assert_int_equal(warm_budget(&p), FIRST_BUDGET);
  warm_no_room_for(&p, 15);
  warm_no_room_for(&p, 5);
  assert_int_equal(warm_budget(&p), FIRST_BUDGET - 5); /* a unit less for each four */
  missed_after(&p, 12, 1000, 100);
  assert_int_equal(warm_budget(&p), FIRST_BUDGET + 12);
  missed_after(&p, 0, 1000, 100);
  missed_after(&p, 12, 1000, 100); /* 8 are left to be sorry for */
  assert_int_equal(warm_budget(&p), FIRST_BUDGET + 20);
  missed_after(&p, 12, 1000, 0);
  assert_int_equal(warm_budget(&p), FIRST_BUDGET + 20);
  warm_no_room_for(&p, 30);
  missed_after(&p, 30, 1000, 5000); /* too late */
  missed_after(&p, 30, 1000, 0);    /* and forgotten */
  assert_int_equal(warm_budget(&p), FIRST_BUDGET + 20);
}

static void the_end_of_a_spike_leaves_nothing(void **state) {
  (void)state;
  struct warm_pool p = {0};
  warm_no_room_for(&p, 4 * FIRST_BUDGET);
  assert_int_equal(warm_budget(&p), 0);
  warm_no_room_for(&p, 1000);
  assert_int_equal(warm_budget(&p), 0);
  missed_after(&p, 1, 4, 5000);
  assert_int_equal(warm_budget(&p), FIRST_BUDGET);
}

static void the_budget_has_limits(void **state) {
  (void)state;
  struct warm_pool p = {0};
  warm_no_room_for(&p, 100);
  missed_after(&p, 100, 60, 0);
  assert_int_equal(warm_budget(&p), FIRST_BUDGET + 30); /* half of what is in use */
  warm_no_room_for(&p, 100);
  missed_after(&p, 1, 20, 0);
  assert_int_equal(warm_budget(&p), FIRST_BUDGET + 10); /* also when that has become less */
  size_t most = (size_t)option_value(WARM_POOL_MB) / 2;
  warm_no_room_for(&p, 10 * most);
  missed_after(&p, 10 * most, 100 * most, 0);
  assert_int_equal(warm_budget(&p), most);
#if HAK_FAST
  printf("skipped: what options change, which are constants here\n");
#else
  SET_OPTION(WARM_POOL_MB, 4);
  assert_int_equal(warm_budget(&p), 2);
  assert_int_equal(warm_budget(&(struct warm_pool){0}), 2);
  SET_OPTION(WARM_POOL_MB, 0);
  assert_int_equal(warm_budget(&p), 0);
  SET_OPTION(WARM_POOL_MB, 4096);
  SET_OPTION(WARM_POOL_DECAY_MS, 0); /* kept for ever, so up to the limit from the start */
  assert_int_equal(warm_budget(&(struct warm_pool){0}), most);
  SET_OPTION(WARM_POOL_DECAY_MS, VERY_LONG_MS);
#endif
}

static size_t take_victims(struct warm_pool *p, size_t incoming, bool to_nothing,
                           struct warm_run *victims, size_t most) {
  size_t taken = 0;
  while (taken < most && warm_take_victim(p, incoming, to_nothing, &victims[taken])) taken++;
  return taken;
}

static void a_place_is_served_by_what_begins_there(void **state) {
  (void)state;
  struct warm_pool p = {0};
  struct warm_run run = run_at(10, 3, 0);
  warm_insert(&p, run);
  assert_false(warm_take_at(&p, address_of(11), 1, 0));
  assert_false(warm_take_at(&p, address_of(10), 4, 0));
  assert_false(warm_take_at(&p, address_of(10), 1, 1)); /* of another node */
  assert_true(warm_take_at(&p, address_of(10), 1, 0));
  assert_int_equal(p.units, 2);
  assert_ptr_equal(p.runs[0].base, address_of(11));
  assert_true(warm_take_at(&p, address_of(11), 2, 0));
  assert_int_equal(p.count + p.units, 0);
  run.huge_pages = true;
  warm_insert(&p, run);
  assert_false(warm_take_at(&p, address_of(10), 1, 0));
#if HAK_HARDENED
  p = (struct warm_pool){0};
  run = (struct warm_run){.base = address_of(10), .units = 3, .fenced = UNIT_BYTES};
  warm_insert(&p, run);
  assert_false(warm_take_at(&p, address_of(10), 1, 0));
#endif
}

static void victims_go_oldest_first_for_want_of_room(void **state) {
  (void)state;
  struct warm_pool p = {0};
  struct warm_run victims[WARM_RUNS];
  uint64_t now = os_clock_ms();
  for (size_t i = 0; i < 4; i++) warm_insert(&p, run_at(10 * i, 2, now));
  assert_int_equal(take_victims(&p, 0, false, victims, WARM_RUNS), 0); /* just full */
  assert_int_equal(take_victims(&p, 3, false, victims, WARM_RUNS), 2);
  assert_ptr_equal(victims[0].base, address_of(0));
  assert_ptr_equal(victims[1].base, address_of(10));
  assert_int_equal(p.units, 4);
  assert_int_equal(p.evicted_units, 4);
  assert_int_equal(take_victims(&p, 100, false, victims, 1), 1); /* not more than asked for */
  assert_int_equal(take_victims(&p, 0, true, victims, WARM_RUNS), 1);
  assert_int_equal(p.units + p.count, 0);
  /* Full of short runs: one has to go, though there is room in bytes. */
  p.grown_units = 2 * WARM_RUNS;
  for (size_t i = 0; i < WARM_RUNS; i++) warm_insert(&p, run_at(2 * i, 1, now));
  assert_true(warm_is_full(&p));
  assert_int_equal(take_victims(&p, 0, false, victims, WARM_RUNS), 0);
  assert_int_equal(take_victims(&p, 1, false, victims, WARM_RUNS), 1);
  assert_ptr_equal(victims[0].base, address_of(0));
}

static void what_ages_out_shrinks_the_budget(void **state) {
  (void)state;
  struct warm_pool p = {.grown_units = 12};
  struct warm_run victims[WARM_RUNS];
  uint64_t decay = (uint64_t)option_value(WARM_POOL_DECAY_MS), now = os_clock_ms();
  warm_insert(&p, run_at(0, 3, now - 3 * decay));
  warm_insert(&p, run_at(10, 4, now - 2 * decay));
  warm_insert(&p, run_at(20, 5, now));
  warm_no_room_for(&p, 1);
  assert_int_equal(take_victims(&p, 0, false, victims, 1), 1);
  assert_int_equal(warm_budget(&p), FIRST_BUDGET + 9);
  assert_int_equal(take_victims(&p, 0, false, victims, WARM_RUNS), 1);
  assert_ptr_equal(victims[0].base, address_of(10));
  assert_int_equal(warm_budget(&p), FIRST_BUDGET + 5);
  assert_int_equal(p.units, 5);
  assert_int_equal(p.evicted_units, 1); /* nobody will be sorry for these */
  warm_insert(&p, run_at(30, 50, now));
  p.runs[0].since_ms = p.runs[1].since_ms = now - 2 * decay;
  p.grown_units = 48;
  assert_int_equal(take_victims(&p, 0, false, victims, WARM_RUNS), 2);
  assert_int_equal(warm_budget(&p), FIRST_BUDGET); /* never less */
#if !HAK_FAST
  SET_OPTION(SS_MEM_LEAN_DECOMMIT, DECOMMIT_FREE); /* they stay, lazily freed */
  warm_insert(&p, run_at(0, 3, now - 3 * decay));
  assert_int_equal(take_victims(&p, 0, false, victims, WARM_RUNS), 0);
  SET_OPTION(SS_MEM_LEAN_DECOMMIT, DECOMMIT_DONTNEED);
#endif
}

/* A unit that comes and goes beside units that nobody wants does not keep them. */
static void neighbours_have_the_age_of_the_longer(void **state) {
  (void)state;
  struct warm_pool p = {.grown_units = 100};
  struct warm_run victims[WARM_RUNS], taken;
  uint64_t decay = (uint64_t)option_value(WARM_POOL_DECAY_MS), now = os_clock_ms();
  warm_insert(&p, run_at(0, 10, now - 2 * decay));
  warm_insert(&p, run_at(50, 1, now - decay / 2));
  warm_insert(&p, run_at(10, 1, now));
  assert_int_equal(p.count, 2);
  assert_int_equal(p.runs[1].units, 11); /* with what came last: it goes last for want of room */
  assert_true(p.runs[1].since_ms == now - 2 * decay);
  assert_true(warm_take(&p, 11, UNIT_BYTES, 0, &taken));
  warm_insert(&p, run_at(0, 3, now - 2 * decay));
  warm_insert(&p, run_at(3, 8, now)); /* more came than was there */
  assert_int_equal(p.runs[1].units, 11);
  assert_true(p.runs[1].since_ms == now);
  warm_insert(&p, run_at(11, 20, now - 2 * decay));
  assert_int_equal(take_victims(&p, 0, false, victims, WARM_RUNS), 1);
  assert_int_equal(victims[0].units, 31);
  assert_int_equal(p.units, 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(joins_and_cuts_lose_no_unit),
      cmocka_unit_test(the_budget_grows_by_regret_alone),
      cmocka_unit_test(the_end_of_a_spike_leaves_nothing),
      cmocka_unit_test(the_budget_has_limits),
      cmocka_unit_test(a_place_is_served_by_what_begins_there),
      cmocka_unit_test(victims_go_oldest_first_for_want_of_room),
      cmocka_unit_test(what_ages_out_shrinks_the_budget),
      cmocka_unit_test(neighbours_have_the_age_of_the_longer),
  };
  return cmocka_run_group_tests_name("warm pool", tests, start, NULL);
}
