/* closed_when_freed.c - hardened, HAKMEM_GUARD=full: a Large block that was freed cannot be touched until its memory is used again.
 * Where the system refuses to open it again, other memory is used. */
#include "superslab/map.h"
#include "superslab_figures.h"

#include <errno.h>
#include <string.h>

#include "large/large.h"
#include "superslab/guard_pages.h"

WITHOUT_SAMPLES;

/* The next calls that would open closed memory are refused, as under a limit of data that has come down; and how many have been. */
static unsigned to_refuse, refused;

long __real_call_mprotect(void *address, size_t bytes, int protection); /* the linker calls it so */
long __wrap_call_mprotect(void *address, size_t bytes, int protection);
long __wrap_call_mprotect(void *address, size_t bytes, int protection) {
  if (protection == PROT_NONE || to_refuse == 0)
    return __real_call_mprotect(address, bytes, protection);
  to_refuse--;
  refused++;
  return -ENOMEM;
}

static int start(void **state) {
  (void)state;
  options_at_start();
  SET_OPTION(GUARD, GUARD_FULL);
  SET_OPTION(WARM_POOL_DECAY_MS, VERY_LONG_MS);
  return 0;
}

/* How many of the pages can be written? By a system call, which says so instead of ending the program. */
static size_t open_pages(char *from, size_t bytes) {
  int ends[2];
  size_t open = 0;
  if (pipe(ends) != 0) abort();
  for (size_t at = 0; at < bytes; at += os_page_size()) {
    char left;
    if (write(ends[1], "x", 1) != 1) abort();
    if (read(ends[0], from + at, 1) == 1) open++;
    else if (read(ends[0], &left, 1) != 1) abort();
  }
  close(ends[0]);
  close(ends[1]);
  return open;
}

static void check_closed(char *from, size_t bytes) { assert_int_equal(open_pages(from, bytes), 0); }

static void check_open(char *from, size_t bytes) {
  assert_int_equal(open_pages(from, bytes) * os_page_size(), round_to_page(bytes));
}

static char *take(struct span_cache *cache, size_t bytes) {
  bool zeroed;
  char *block = large_allocate(cache, bytes, 16, &zeroed);
  if (block != NULL) check_open(block, bytes);
  if (block != NULL) memset(block, 'a', bytes);
  return block;
}

static void give(struct span_cache *cache, char *block, size_t bytes) {
  assert_true(large_free(cache, map_slab(block)));
  /* With the last block of its SuperSlab the unit goes to the warm pool, where nothing is closed. */
  if (map_superslab(block) != NULL) check_closed(block, bytes);
}

static void a_kept_block_is_closed(void **state) {
  (void)state;
  struct span_cache cache = {0};
  enum { BLOCKS = 6 };
  char *blocks[BLOCKS];
  for (int i = 0; i < BLOCKS; i++) blocks[i] = take(&cache, 300 * KIB);
  for (int i = 0; i < BLOCKS; i++) give(&cache, blocks[i], 300 * KIB);
  unsigned again = 0;
  for (int i = 0; i < BLOCKS; i++) {
    char *block = take(&cache, 300 * KIB);
    for (int j = 0; j < BLOCKS; j++) again += block == blocks[j];
    /* Those that were freed last wait. */
    assert_ptr_not_equal(block, blocks[BLOCKS - 1]);
    check_closed(block + span_usable(map_slab(block)), os_page_size());
  }
  assert_true(again > 0);
  span_cache_flush(&cache);
}

static void one_that_is_not_kept_is_closed_until_its_slices_are_used(void **state) {
  (void)state;
  bool zeroed;
  char *keeper = take(NULL, 100 * KIB), *block = take(NULL, 700 * KIB);
  give(NULL, block, 700 * KIB);
  /* In parts, as blocks of other lengths. */
  enum { BLOCKS = 8 };
  char *blocks[BLOCKS];
  unsigned inside = 0;
  for (int i = 0; i < BLOCKS; i++) {
    blocks[i] = take(NULL, 70 * KIB);
    inside += blocks[i] >= block && blocks[i] < block + 700 * KIB;
  }
  assert_true(inside > 0);
  for (int i = 0; i < BLOCKS; i++) give(NULL, blocks[i], 70 * KIB);
  /* And as a slab, where there is nothing else. */
  struct slab *slab = span_acquire_left(2, 1, KIND_SLAB, 0, &zeroed);
  assert_non_null(slab);
  check_open(slab_base(slab), span_usable(slab));
  slab->touched = 2 * SLICE_BYTES;
  span_release(slab);
  give(NULL, keeper, 100 * KIB);
}

static void it_grows_over_what_was_freed(void **state) {
  (void)state;
  bool grown = false;
  for (int i = 0; i < 20 && !grown; i++) {
    char *block = take(NULL, 100 * KIB), *next = take(NULL, 300 * KIB);
    give(NULL, next, 300 * KIB);
    grown = large_resize(map_slab(block), 250 * KIB);
    if (grown) check_open(block, 250 * KIB);
    give(NULL, block, grown ? 250 * KIB : 100 * KIB);
  }
  assert_true(grown);
}

/* A freed block stays as it is, and is the next one that is taken. */
static void check_nothing_is_closed(void) {
  struct span_cache cache = {0};
  char *block = take(&cache, 300 * KIB);
  assert_true(large_free(&cache, map_slab(block)));
  check_open(block, 300 * KIB);
  assert_ptr_equal(take(&cache, 300 * KIB), block);
  assert_true(large_free(&cache, map_slab(block)));
  span_cache_flush(&cache);
}

static void nothing_is_closed_without_a_quarantine(void **state) {
  (void)state;
  int32_t quarantine = option_value(GUARD_QUARANTINE_KB);
  SET_OPTION(GUARD_QUARANTINE_KB, 0);
  check_nothing_is_closed();
  SET_OPTION(GUARD_QUARANTINE_KB, quarantine);
}

/* All that is handed out can be used, whatever was refused before. */
static void refusals_cost_no_more_than_the_memory(void **state) {
  (void)state;
  struct span_cache cache = {0};
  enum { BLOCKS = 12 };
  char *blocks[BLOCKS];
  size_t lengths[BLOCKS];
  uint64_t random = 5;
  refused = 0;
  for (int round = 0; round < 30; round++) {
    struct span_cache *kept = round % 3 == 0 ? NULL : &cache;
    to_refuse = 0;
    for (int i = 0; i < BLOCKS; i++) {
      lengths[i] = (70 + random_below(&random, 800)) * KIB;
      to_refuse = (unsigned)random_below(&random, 3);
      blocks[i] = take(kept, lengths[i]);
    }
    for (int i = 0; i < BLOCKS; i++) {
      to_refuse = (unsigned)random_below(&random, 3);
      if (blocks[i] != NULL) give(kept, blocks[i], lengths[i]);
    }
  }
  to_refuse = 1000;
  span_cache_flush(&cache);
  unit_trim();
  to_refuse = 0;
  assert_true(refused > 30);
  for (int i = 0; i < BLOCKS; i++) assert_non_null(blocks[i] = take(&cache, 300 * KIB));
  for (int i = 0; i < BLOCKS; i++) give(&cache, blocks[i], 300 * KIB);
  span_cache_flush(&cache);
}

static int with_light(void **state) {
  (void)state;
  SET_OPTION(GUARD, GUARD_LIGHT);
  return 0;
}

static int with_full(void **state) {
  (void)state;
  SET_OPTION(GUARD, GUARD_FULL);
  return 0;
}

static void light_closes_nothing(void **state) {
  (void)state;
  check_nothing_is_closed();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      /* First: a process has one mode. */
      cmocka_unit_test_setup_teardown(light_closes_nothing, with_light, with_full),
      cmocka_unit_test(a_kept_block_is_closed),
      cmocka_unit_test(one_that_is_not_kept_is_closed_until_its_slices_are_used),
      cmocka_unit_test(it_grows_over_what_was_freed),
      cmocka_unit_test(nothing_is_closed_without_a_quarantine),
      cmocka_unit_test(refusals_cost_no_more_than_the_memory),
  };
  return cmocka_run_group_tests_name("closed when freed", tests, start, NULL);
}
