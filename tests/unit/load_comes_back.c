/* load_comes_back.c - a load that comes back to slabs whose pages were given back: where its blocks come from. */
#include "superslab/unit_os.h"
#include "unit_test.h"

#include <sys/resource.h>
#include <unistd.h>

#include "front/guard.h"
#include "hakmem.h"
#include "heap/purger.h"
#include "heap/slabs.h"
#include "policy/options.h"

WITHOUT_SAMPLES;

/* 48 MiB: well above what a heap needs for huge pages. */
enum { SIZE = 2048, COUNT = 24 * 1024, SLACK = 1024 * 1024 };
#define COMES_BACK RELEASE_LEAST /* so much comes out of holes first */

static void *blocks[COUNT];

static struct thread_cache *mine(void) {
  struct thread_cache *heap = cache_of_thread();
  assert_non_null(heap);
  return heap;
}

/* Allocates `bytes` into empty places; returns how many blocks lie in a SuperSlab whose huge page was broken up. */
static size_t load(size_t bytes) {
  size_t in_split = 0;
  for (size_t i = 0; i < COUNT && bytes >= SIZE; i++) {
    if (blocks[i] != NULL) continue;
    assert_non_null(blocks[i] = hak_malloc(SIZE));
    memset(blocks[i], (int)i, SIZE);
    in_split += atomic_load(&map_superslab(blocks[i])->split);
    bytes -= SIZE;
  }
  assert_true(bytes < SIZE);
  return in_split;
}

/* Frees all but a twentieth, at random, and gives back what can be. */
static void go_quiet(void) {
  uint64_t random = 7;
  for (size_t i = 0; i < COUNT; i++) {
    if (random_below(&random, 100) < 5) continue;
    hak_free(blocks[i]);
    blocks[i] = NULL;
  }
  hak_purge();
  assert_int_equal(mine()->arena->recommitted_bytes, 0);
}

static int start(void **state) {
  (void)state;
  options_at_start();
  SET_OPTION(WARM_POOL_DECAY_MS, VERY_LONG_MS);
  SET_OPTION(BACKGROUND, BACKGROUND_NEVER); /* no helper in between */
  SET_OPTION(SS_HUGEPAGE, HUGEPAGE_THP);
  SET_OPTION(SS_MEM_LEAN, 0);
  struct thread_cache *heap = cache_of_thread();
  if (heap == NULL) return -1;
  heap->arena->peak_committed = 0;
  load((size_t)COUNT * SIZE);
  go_quiet();
  return heap->arena->decommitted_bytes > (size_t)COUNT * SIZE / 2 ? 0 : -1;
}

static int end(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT; i++) {
    hak_free(blocks[i]);
    blocks[i] = NULL;
  }
  hak_purge();
  return cache_of_thread()->arena->decommitted_bytes < SLACK ? 0 : -1;
}

static void a_load_that_comes_back_gets_whole_superslabs(void **state) {
  (void)state;
  size_t holes = mine()->arena->decommitted_bytes;
  load(COMES_BACK + SLACK +
       mine()->arena->free_bytes); /* free blocks that have their pages go first */
  size_t left = mine()->arena->decommitted_bytes;
  assert_in_range(holes - left, COMES_BACK, COMES_BACK + SLACK);
  assert_int_equal(load(16 * MIB), 0);
  assert_int_equal(mine()->arena->decommitted_bytes, left);
  /* Of so little that is in memory, new slabs would be too much: holes are used. */
  mine()->arena->peak_committed = MIB;
  load(8 * MIB);
  assert_in_range(left - mine()->arena->decommitted_bytes, 6 * MIB, 8 * MIB + SLACK);
}

static void needs_a_limit_of_its_own(void) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__x86_64__)
  print_message("skipped: a sanitizer and an emulator map memory beside ours\n");
  skip();
#endif
}

static void needs_options(void) {
#if HAK_FAST
  print_message("skipped: the fast variant has its options fixed at compile time\n");
  skip();
#endif
}

static size_t address_space(void) {
  size_t pages = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  assert_non_null(file);
  assert_int_equal(fscanf(file, "%zu", &pages), 1);
  fclose(file);
  return pages * os_page_size();
}

static void without_address_space_for_new_slabs_old_ones_do(void **state) {
  (void)state;
  needs_a_limit_of_its_own();
  struct rlimit before, limit;
  load(COMES_BACK + SLACK + mine()->arena->free_bytes);
  size_t given = mine()->arena->decommitted_bytes, mapped = unit_mapped_bytes();
  assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
  limit = (struct rlimit){address_space(), before.rlim_max};
  assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
  load(4 * MIB);
  assert_true(mine()->arena->recommitted_bytes >= COMES_BACK);
  /* Of a size that has no slab yet: in free slices of old SuperSlabs. */
  void *others[2 * MIB / 1024];
  for (size_t i = 0; i < 2 * MIB / 1024; i++) assert_non_null(others[i] = hak_malloc(1024));
  assert_true(mine()->arena->recommitted_bytes >=
              COMES_BACK); /* nothing had to be given back for it */
  for (size_t i = 0; i < 2 * MIB / 1024; i++) hak_free(others[i]);
  assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
  assert_int_equal(unit_mapped_bytes(), mapped);
  assert_int_equal(mine()->arena->decommitted_bytes, given);
}

static void a_block_in_a_slab_with_holes_makes_it_a_partial_one(void **state) {
  (void)state;
  struct arena_class *slabs = &mine()->arena->classes[class_for(SIZE)];
  const struct bin *bin = &mine()->bins[class_for(SIZE)];
  while (slabs->first != NULL || bin->head != NULL) load(SIZE);
  struct slab *slab = slabs->decommitted;
  assert_non_null(slab);
  unsigned holes = slab_hole_count(slab);
  size_t i = 0;
  while (blocks[i] == NULL || slab_head(map_slab(blocks[i])) != slab) i++;
  guard_freed(blocks[i], map_inbox(blocks[i]));
  lock_acquire(&mine()->arena->lock);
  link_set(blocks[i], NULL); /* a list of one */
  slabs_put_list(mine()->arena, slab->size_class, blocks[i], true);
  lock_release(&mine()->arena->lock);
  assert_ptr_equal(slabs->first, slab);
  assert_int_equal(slab->listed, LIST_PARTIAL);
  assert_ptr_equal(hak_malloc(SIZE), blocks[i]);
  assert_int_equal(slab->listed, LIST_DECOMMITTED);
  assert_ptr_equal(slabs->decommitted, slab);
  assert_int_equal(slab_hole_count(slab), holes);
}

static void holes_are_used(void) {
  size_t holes = mine()->arena->decommitted_bytes;
  load(16 * MIB + mine()->arena->free_bytes);
  assert_in_range(holes - mine()->arena->decommitted_bytes, 12 * MIB, 16 * MIB + SLACK);
}

static void without_huge_pages_holes_are_used(void **state) {
  (void)state;
  needs_options();
  SET_OPTION(SS_HUGEPAGE, HUGEPAGE_OFF);
  holes_are_used();
}

static void a_lean_process_uses_holes(void **state) {
  (void)state;
  needs_options();
  SET_OPTION(SS_MEM_LEAN, 1);
  holes_are_used();
}

/* Loads that come and go, each leaving a twentieth at random: the slabs do not become more and more. */
static void cycles_do_not_add_up(void **state) {
  (void)state;
  size_t live = 0;
  for (int cycle = 0; cycle < 12; cycle++) {
    for (size_t i = 0; i < COUNT; i++) live += blocks[i] != NULL;
    load(((size_t)COUNT - live) * SIZE);
    live = 0;
    size_t owned = atomic_load(&mine()->arena->slab_bytes);
    assert_in_range(owned, (size_t)COUNT * SIZE, (size_t)COUNT * SIZE * 7 / 2);
    for (size_t i = 0; i < COUNT; i++) {
      const unsigned char *block = blocks[i];
      assert_int_equal(block[0], (unsigned char)i);
      assert_int_equal(block[SIZE - 1], (unsigned char)i);
    }
    go_quiet();
  }
}

int main(void) {
  if (sysconf(_SC_PAGESIZE) > 16 * 1024) {
    printf("skipped: a page is a whole slab, which has no holes then\n");
    return 77;
  }
#define TEST(name) cmocka_unit_test_setup_teardown(name, start, end)
  const struct CMUnitTest tests[] = {
      TEST(a_load_that_comes_back_gets_whole_superslabs),
      TEST(without_address_space_for_new_slabs_old_ones_do),
      TEST(a_block_in_a_slab_with_holes_makes_it_a_partial_one),
      TEST(without_huge_pages_holes_are_used),
      TEST(a_lean_process_uses_holes),
      TEST(cycles_do_not_add_up),
  };
  return cmocka_run_group_tests_name("load comes back", tests, NULL, NULL);
}
