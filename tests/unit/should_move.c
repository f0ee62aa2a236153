/* should_move.c - hak_should_move finds the blocks that keep pages for few, and a program that moves them gets memory back. */
#include "unit_test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

/* What lies where is told to the block here, and the sampler's blocks are never said to be moved. */
WITHOUT_SAMPLES;

enum { BLOCKS = 64 * 1024, KEEP_ONE_IN = 16, PASSES = 4 };

static struct hak_memory_stats memory_now(void) {
  struct hak_memory_stats stats = {.size = sizeof stats};
  assert_int_equal(hak_memory_stats_get(&stats), 0);
  return stats;
}

static uint64_t slab_bytes_now(void) {
  struct hak_stats stats = {.size = sizeof stats};
  assert_int_equal(hak_stats_get(&stats), 0);
  return stats.bytes_slab;
}

struct kept {
  unsigned char **blocks;
  size_t count, size;
};

/* Fills, and leaves one block in 16: in each page one at least, so that no page can go. */
static struct kept leave_few(size_t size, size_t blocks) {
  unsigned char **all = malloc(blocks * sizeof *all);
  struct kept kept = {all, 0, size};
  assert_non_null(all);
  for (size_t i = 0; i < blocks; i++) {
    all[i] = hak_malloc(size);
    assert_non_null(all[i]);
    memset(all[i], (int)(i / KEEP_ONE_IN % 251), size);
  }
  for (size_t i = 0; i < blocks; i++) {
    if (i % KEEP_ONE_IN == 0) all[kept.count++] = all[i];
    else hak_free(all[i]);
  }
  return kept;
}

static size_t count_to_move(const struct kept *kept) {
  size_t count = 0;
  for (size_t i = 0; i < kept->count; i++) count += hak_should_move(kept->blocks[i]);
  return count;
}

typedef void free_function(void *);

/* As a program does that compacts itself; returns how many it moved. */
static size_t move_all(struct kept *kept, free_function *free_old) {
  size_t moved = 0;
  for (size_t i = 0; i < kept->count; i++) {
    if (!hak_should_move(kept->blocks[i])) continue;
    unsigned char *block = hak_malloc(kept->size);
    assert_non_null(block);
    memcpy(block, kept->blocks[i], kept->size);
    free_old(kept->blocks[i]);
    kept->blocks[i] = block;
    moved++;
  }
  return moved;
}

static void check_and_free(struct kept *kept) {
  for (size_t i = 0; i < kept->count; i++) {
    for (size_t j = 0; j < kept->size; j++) assert_int_equal(kept->blocks[i][j], i % 251);
    hak_free(kept->blocks[i]);
  }
  free(kept->blocks);
  hak_purge();
}

static void a_program_that_moves_gets_memory_back(void **state) {
  (void)state;
  static const size_t sizes[] = {16, 64, 144};
  for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
    struct kept kept = leave_few(sizes[s], BLOCKS);
    hak_purge();
    uint64_t pinned = memory_now().pinned, slabs = slab_bytes_now();
    assert_true(pinned > BLOCKS * sizes[s] / 2);
    assert_true(count_to_move(&kept) > kept.count / 2);
    size_t moved = 0, last = 0;
    for (int pass = 0; pass < PASSES; pass++) {
      last = move_all(&kept, hak_free_moved);
      moved += last;
    }
    hak_purge();
    /* A pass has nothing left to do, and no block was moved to and fro. */
    assert_true(last <= 1);
    assert_true(moved <= 2 * kept.count);
    assert_true(memory_now().pinned < pinned / 8);
    assert_true(slab_bytes_now() < slabs / 4);
    check_and_free(&kept);
  }
}

static unsigned char *old_blocks[BLOCKS / KEEP_ONE_IN];
static size_t old_count;
static void keep_for_later(void *block) { old_blocks[old_count++] = block; }

static void hak_free_does_too_if_it_comes_last(void **state) {
  (void)state;
  struct kept kept = leave_few(64, BLOCKS);
  hak_purge();
  uint64_t pinned = memory_now().pinned;
  for (int pass = 0; pass < PASSES; pass++) {
    old_count = 0;
    (void)move_all(&kept, keep_for_later);
    for (size_t i = 0; i < old_count; i++) hak_free(old_blocks[i]);
  }
  hak_purge();
  assert_true(memory_now().pinned < pinned / 4);
  check_and_free(&kept);
}

static void full_slabs_stay(void **state) {
  (void)state;
  enum { COUNT = 8192, SIZE = 96 };
  static void *blocks[COUNT];
  for (int i = 0; i < COUNT; i++) assert_non_null(blocks[i] = hak_malloc(SIZE));
  hak_purge();
  for (int i = 0; i < COUNT; i++) assert_false(hak_should_move(blocks[i]));
  for (int i = 0; i < COUNT; i++) hak_free(blocks[i]);
}

/* With no other slab to move to, nothing is to be moved. */
static void the_last_slab_stays(void **state) {
  (void)state;
  enum { COUNT = 200, SIZE = 208 };
  static void *blocks[COUNT];
  hak_purge();
  for (int i = 0; i < COUNT; i++) assert_non_null(blocks[i] = hak_malloc(SIZE));
  for (int i = 0; i < COUNT; i++)
    if (i % 10 != 0) hak_free(blocks[i]);
  hak_purge();
  for (int i = 0; i < COUNT; i += 10) assert_false(hak_should_move(blocks[i]));
  for (int i = 0; i < COUNT; i += 10) hak_free(blocks[i]);
}

/* Their pages go back by themselves. */
static void large_blocks_stay(void **state) {
  (void)state;
  static const size_t sizes[] = {2 * 65536, 512 * KIB, 5 * MIB};
  size_t pages = 2 * os_page_size();
  struct kept kept = leave_few(pages, 2048);
  assert_int_equal(count_to_move(&kept), 0);
  for (size_t i = 0; i < kept.count; i++) hak_free(kept.blocks[i]);
  free(kept.blocks);
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    void *block = hak_malloc(sizes[i]);
    assert_non_null(block);
    assert_false(hak_should_move(block));
    hak_free(block);
  }
}

static void samples_stay(void **state) {
  (void)state;
  if (HAK_FAST) return; /* it has none */
  atomic_store(&samples.rate, 1);
  /* The rate is heard of after what was drawn before: 64 MiB at most. */
  for (int i = 0; i < 300; i++) hak_free(hak_malloc(256 * KIB));
  uint64_t before = atomic_load(&samples.live);
  struct kept kept = leave_few(64, BLOCKS / 8);
  assert_true(atomic_load(&samples.live) > before);
  assert_int_equal(count_to_move(&kept), 0);
  for (size_t i = 0; i < kept.count; i++) hak_free(kept.blocks[i]);
  free(kept.blocks);
  atomic_store(&samples.rate, -1);
  hak_free(hak_malloc(16)); /* takes the last one */
}

static void others_memory_stays(void **state) {
  (void)state;
  char on_stack[64];
  void *theirs = malloc(64);
  assert_false(hak_should_move(NULL));
  assert_false(hak_should_move(on_stack));
  assert_false(hak_should_move(theirs));
  free(theirs);
  hak_free_moved(NULL);
}

/* --- threads ------------------------------------------------------------------------------------------------- */

static void *fill_and_end(void *kept) {
  *(struct kept *)kept = leave_few(64, BLOCKS);
  return NULL;
}

/* What a thread has left behind is moved by another one, which takes its heap's slabs. */
static void blocks_of_an_ended_thread(void **state) {
  (void)state;
  struct kept kept;
  pthread_t thread;
  hak_free(hak_malloc(64)); /* this thread has a heap of its own */
  assert_int_equal(pthread_create(&thread, NULL, fill_and_end, &kept), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
  hak_purge();
  uint64_t pinned = memory_now().pinned;
  assert_true(count_to_move(&kept) > kept.count / 2);
  for (int pass = 0; pass < PASSES; pass++) {
    (void)move_all(&kept, hak_free_moved);
    hak_purge();
  }
  assert_true(memory_now().pinned < pinned / 4);
  check_and_free(&kept);
}

static atomic_bool stop;

static void *allocate_and_free(void *unused) {
  (void)unused;
  enum { COUNT = 4096 };
  static void *blocks[COUNT];
  uint64_t random = 7;
  for (unsigned i = 0; !atomic_load(&stop); i++) {
    void **block = &blocks[random_below(&random, COUNT)];
    hak_free_moved(*block);
    *block = hak_malloc(64);
    if (i % 65536 == 0) hak_purge();
  }
  for (int i = 0; i < COUNT; i++) hak_free(blocks[i]);
  return NULL;
}

/* Answers are hints then, but the blocks are safe. */
static void asked_while_others_work(void **state) {
  (void)state;
  pthread_t thread;
  struct kept kept = leave_few(64, BLOCKS / 4);
  atomic_store(&stop, false);
  assert_int_equal(pthread_create(&thread, NULL, allocate_and_free, NULL), 0);
  for (int pass = 0; pass < 20; pass++) (void)move_all(&kept, hak_free_moved);
  atomic_store(&stop, true);
  assert_int_equal(pthread_join(thread, NULL), 0);
  check_and_free(&kept);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_program_that_moves_gets_memory_back),
      cmocka_unit_test(hak_free_does_too_if_it_comes_last),
      cmocka_unit_test(full_slabs_stay),
      cmocka_unit_test(the_last_slab_stays),
      cmocka_unit_test(large_blocks_stay),
      cmocka_unit_test(samples_stay),
      cmocka_unit_test(others_memory_stays),
      cmocka_unit_test(blocks_of_an_ended_thread),
      cmocka_unit_test(asked_while_others_work),
  };
  return cmocka_run_group_tests_name("should_move", tests, NULL, NULL);
}
