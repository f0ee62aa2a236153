/* refill_before_new_pages.c - where a refill takes its blocks from before it touches new pages. */
#include "unit_test.h"

#include <string.h>

#include "hakmem.h"
#include "heap/bins.h"
#include "heap/heap.h"
#include "heap/refill.h"
#include "heap/slabs.h"

WITHOUT_SAMPLES;

static struct thread_cache *mine(void) {
  struct thread_cache *heap = cache_of_thread();
  assert_non_null(heap);
  return heap;
}

static struct slab *slab_of(const void *block) { return slab_head(map_slab(block)); }

static void *allocate(size_t size) {
  void *block = hak_malloc(size);
  assert_non_null(block);
  return block;
}

/* `count` blocks of the size that are free in their bin. */
static void fill_bin(size_t size, unsigned count, void **blocks) {
  mine()->refilled = GIB; /* it may keep as much as any */
  for (unsigned i = 0; i < count; i++) blocks[i] = allocate(size);
  for (unsigned i = 0; i < count; i++) hak_free(blocks[i]);
  assert_ptr_equal(mine()->bins[class_for(size)].head, blocks[count - 1]);
}

static void needs_fallbacks(void) {
  if (mine()->counters == NULL) return;
  print_message("skipped: where calls are counted by class, none is served by another\n");
  skip();
}

static void a_larger_block_serves_before_a_new_page(void **state) {
  (void)state;
  needs_fallbacks();
  void *lender[3], *lent[2];
  fill_bin(448, 3, lender);
  mine()->fallbacks = 2;
  mine()->fallbacks_since = UINT64_MAX / 2; /* in the future: no time passes */
  for (int i = 0; i < 2; i++) {
    lent[i] = allocate(416);
    assert_int_equal(hak_usable_size(lent[i]), 448);
    assert_ptr_equal(lent[i], lender[2 - i]);
  }
  /* No more than so many in a row: then a page is due. */
  void *own = allocate(416);
  assert_int_equal(hak_usable_size(own), 416);
  assert_int_equal(mine()->fallbacks, 0);
  /* They return to their own bin. */
  hak_free(lent[1]);
  assert_ptr_equal(mine()->bins[class_for(448)].head, lent[1]);
  hak_free(lent[0]);
  hak_free(own);
}

/* hardened: blocks of 128 bytes are cleared, those of 144 are not, by HAKMEM_GUARD_ZERO's default. */
static void what_is_lent_is_as_clean_as_its_own(void **state) {
  (void)state;
  needs_fallbacks();
  enum { SIZE = 128, LENDER = 144 };
  void *own[64];
  int count = 0;
  while (mine()->bins[class_for(SIZE)].head != NULL && count < 64) own[count++] = allocate(SIZE);
  char *lender = allocate(LENDER);
  memset(lender, 'S', LENDER);
  hak_free(lender);
  mine()->fallbacks = 2;
  mine()->fallbacks_since = UINT64_MAX / 2;
  char *block = allocate(SIZE);
  if (HAK_HARDENED)
    for (int i = 0; i < SIZE; i++) assert_int_equal(block[i], 0);
  else assert_ptr_equal(block, lender);
  hak_free(block);
  while (count > 0) hak_free(own[--count]);
}

/* realloc asks for up to twice what the program did, so the block it is lent may have more than that. */
static void a_lent_block_that_has_grown_is_freed_by_its_size(void **state) {
  (void)state;
  needs_fallbacks();
  enum { LENDER = 43648 /* the class above 37440 */, GROWN = 18 * 1024 };
  void *lender[2];
  fill_bin(LENDER, 2, lender);
  mine()->fallbacks = 2;
  mine()->fallbacks_since = UINT64_MAX / 2;
  void *block = hak_realloc(allocate(GROWN / 2 + 1), GROWN);
  assert_int_equal(hak_usable_size(block), LENDER);
  hak_free_sized(block, GROWN);
}

static void a_growing_program_gets_new_pages(void **state) {
  (void)state;
  needs_fallbacks();
  void *lender[4], *blocks[4];
  fill_bin(768, 4, lender);
  mine()->fallbacks = 0;
  mine()->fallbacks_since = UINT64_MAX / 2; /* in the future: no time has passed */
  blocks[0] = allocate(704);
  assert_int_equal(hak_usable_size(blocks[0]), 704);
  assert_int_not_equal(mine()->fallbacks_since, UINT64_MAX / 2);
  mine()->fallbacks_since -= 20; /* ms: one fallback is due */
  blocks[1] = allocate(640);
  assert_int_equal(hak_usable_size(blocks[1]), 704); /* the others of the page */
  for (int i = 0; i < 2; i++) hak_free(blocks[i]);
}

/* From 4 KiB on a class borrows as often in a row as touching its own block costs: size / 512 times. */
static void a_class_of_pages_falls_back_until_a_block_of_its_own_has_paid(void **state) {
  (void)state;
  needs_fallbacks();
  enum { SIZE = 10880, LARGER = 11904 /* neighbours among the classes */, FALLBACKS = SIZE / 512 };
  void *lender[1], *own[2];
  fill_bin(LARGER, 1, lender);
  mine()->fallbacks = 0; /* those are for smaller classes */
  mine()->fallbacks_since = UINT64_MAX / 2;
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < FALLBACKS; i++) {
      void *lent = allocate(SIZE);
      assert_ptr_equal(lent, lender[0]);
      hak_free(lent);
    }
    own[round] = allocate(SIZE);
    assert_int_equal(hak_usable_size(own[round]), SIZE);
    assert_ptr_equal(mine()->bins[class_for(LARGER)].head, lender[0]);
  }
  assert_int_equal(mine()->fallbacks_since, UINT64_MAX / 2);
  for (int round = 0; round < 2; round++) hak_free(own[round]);
}

static void nothing_more_than_twice_as_large_is_lent(void **state) {
  (void)state;
  needs_fallbacks();
  void *lender[2];
  fill_bin(48, 2, lender);
  mine()->fallbacks = 16;
  void *block = allocate(16);
  assert_int_equal(hak_usable_size(block), 16);
  hak_free(block);
}

static void alignment_is_kept(void **state) {
  (void)state;
  needs_fallbacks();
  void *lender[2];
  fill_bin(208, 2, lender);
  mine()->fallbacks = 16;
  void *block = hak_aligned_alloc(64, 192);
  assert_non_null(block);
  assert_int_equal((uintptr_t)block % 64, 0);
  assert_int_equal(hak_usable_size(block), 192);
  hak_free(block);
}

static void free_blocks_are_used_before_new_ones(void **state) {
  (void)state;
  enum { SIZE = 2048, OF_A_SLAB = 32, MOST = 64, FREED = 20 };
  void *blocks[MOST];
  unsigned count = 0;
  struct bin *bin = &mine()->bins[class_for(SIZE)];
  mine()->fallbacks = 0;
  mine()->fallbacks_since = UINT64_MAX / 2;
  while (count < OF_A_SLAB + 4 || bin->head != NULL) blocks[count++] = allocate(SIZE);
  struct slab *full = slab_of(blocks[0]), *second = slab_of(blocks[count - 1]);
  assert_ptr_not_equal(full, second);
  unsigned carved = slab_carved(second);
  assert_true(carved < OF_A_SLAB);
  for (unsigned i = 0; i < FREED; i++) hak_free(blocks[i]);
  bin_trim(mine(), bin, 1);
  assert_true(slab_free_count(full) > FREED / 2);
  for (unsigned i = 0; i < FREED; i++) {
    blocks[i] = allocate(SIZE);
    assert_ptr_equal(slab_of(blocks[i]), full);
  }
  assert_int_equal(slab_carved(second), carved);
  for (unsigned i = 0; i < count; i++) hak_free(blocks[i]);
}

/* The slab's free list has as many blocks as it says, each at its place and none twice. */
static void check_free_list(const struct slab *slab) {
  static bool seen[SLICE_BYTES / BLOCK_ALIGNMENT];
  memset(seen, 0, sizeof seen);
  unsigned count = 0;
  for (const char *block = slab->free_list; block != NULL; block = link_next(block)) {
    size_t offset = (size_t)(block - slab_base(slab));
    assert_int_equal(offset % slab_block_size(slab), 0);
    size_t number = offset / slab_block_size(slab);
    assert_in_range(number, 0, slab_carved(slab) - 1);
    assert_false(seen[number]);
    seen[number] = true;
    count++;
  }
  assert_int_equal(count, slab_free_count(slab));
}

/* Freed in the order of their addresses, backwards, and at random: long runs of one slab, and none. */
static void blocks_go_back_to_their_slabs_in_any_order(void **state) {
  (void)state;
  enum { SIZE = 96, COUNT = 2000, KEPT = 7 };
  static void *blocks[COUNT];
  uint64_t random = 1;
  for (int order = 0; order < 3; order++) {
    for (int i = 0; i < COUNT; i++) blocks[i] = allocate(SIZE);
    for (int i = COUNT - 1; order == 2 && i > 0; i--) {
      uint64_t other = random_below(&random, (uint64_t)i + 1);
      void *block = blocks[i];
      blocks[i] = blocks[other];
      blocks[other] = block;
    }
    for (int i = 0; i < COUNT - KEPT; i++) hak_free(order == 1 ? blocks[COUNT - 1 - i] : blocks[i]);
    bin_trim(mine(), &mine()->bins[class_for(SIZE)], 1);
    unsigned free_blocks = 1, carved = 0; /* one is in the bin */
    const struct arena_class *slabs = &mine()->arena->classes[class_for(SIZE)];
    for (const struct slab *slab = slabs->first; slab != NULL; slab = slab->next) {
      check_free_list(slab);
      free_blocks += slab_free_count(slab);
      carved += slab_carved(slab);
    }
    assert_int_equal(carved - free_blocks, KEPT);
    for (int i = COUNT - KEPT; i < COUNT; i++)
      hak_free(order == 1 ? blocks[COUNT - 1 - i] : blocks[i]);
  }
}

/* 256 blocks of a size, then free: what a bin keeps of it once it has run over four times. */
static void bins_shrink_while_a_class_is_only_freed(void **state) {
  (void)state;
  enum { SIZE = 40 * 1024, COUNT = 256 };
  static void *blocks[COUNT];
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < COUNT; i++) blocks[i] = allocate(SIZE);
    for (int i = 0; i < COUNT; i++) hak_free(blocks[i]);
  }
  assert_in_range(mine()->bins[class_for(SIZE)].capacity, 1, 3);
}

/* Memory of slabs that became empty is cut anew, in pieces longer than those that touch new pages. */
static void what_is_there_is_cut_in_longer_pieces(void **state) {
  (void)state;
  enum { SIZE = 800, MANY = 4000, TAKEN = 400 };
  static void *blocks[MANY];
  for (int i = 0; i < MANY; i++) memset(blocks[i] = allocate(SIZE), 1, SIZE);
  for (int i = 0; i < MANY; i++) hak_free(blocks[i]);
  slabs_drain_bins(mine());
  int refills = 0;
  for (int i = 0; i < TAKEN; i++) {
    refills += mine()->bins[class_for(SIZE)].head == NULL;
    blocks[i] = allocate(SIZE);
  }
  assert_in_range(refills, 1, TAKEN / 10);
  for (int i = 0; i < TAKEN; i++) hak_free(blocks[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_larger_block_serves_before_a_new_page),
      cmocka_unit_test(what_is_lent_is_as_clean_as_its_own),
      cmocka_unit_test(a_growing_program_gets_new_pages),
      cmocka_unit_test(a_class_of_pages_falls_back_until_a_block_of_its_own_has_paid),
      cmocka_unit_test(nothing_more_than_twice_as_large_is_lent),
      cmocka_unit_test(alignment_is_kept),
      cmocka_unit_test(free_blocks_are_used_before_new_ones),
      cmocka_unit_test(blocks_go_back_to_their_slabs_in_any_order),
      cmocka_unit_test(a_lent_block_that_has_grown_is_freed_by_its_size),
      cmocka_unit_test(bins_shrink_while_a_class_is_only_freed),
      cmocka_unit_test(what_is_there_is_cut_in_longer_pieces),
  };
  return cmocka_run_group_tests_name("refill before new pages", tests, NULL, NULL);
}
