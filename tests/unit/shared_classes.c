/* shared_classes.c - small classes of a program with many threads: slabs that these share, until a thread refills too often. */
#include "common_blocks.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "front/front.h"
#include "heap/common.h"
#include "heap/remote.h"
#include "heap/share.h"
#include "heap/slabs.h"

WITHOUT_SAMPLES;

/* Each test has classes of its own, so that no bin and no slab has anything of them. */
enum { HEAPS = FEW_HEAPS + SHARE_SETS + 1 };
static struct heap *mine, *others[HEAPS], *fellow; /* one of the same set */

static int start(void **state) {
  (void)state;
  hak_free(hak_malloc(1));
  mine = heap_of_thread();
  return mine != NULL ? 0 : -1;
}

static int end(void **state) {
  (void)state;
  for (int i = 0; i < HEAPS; i++) heap_return(others[i]);
  return 0;
}

/* A bin's blocks, back to their slabs. */
static void empty_bin(struct heap *heap, size_t bytes) {
  bin_trim(heap, &heap->bins[class_for(bytes)], 0);
}

/* However many they are: none from slabs of the heap's own. */
static void take_many(struct heap *heap, size_t bytes, void **blocks, int count) {
  for (int i = 0; i < count; i++)
    if ((blocks[i] = bin_pop(&heap->bins[class_for(bytes)])) == NULL) {
      heap->rented[class_for(bytes)] = 0;
      blocks[i] = take(heap, bytes);
    }
}

static unsigned blocks_in_bin(const struct heap *heap, size_t bytes) {
  unsigned count = 0;
  for (void *block = heap->bins[class_for(bytes)].head; block != NULL; block = link_next(block))
    count++;
  return count;
}

static void few_threads_have_slabs_of_their_own(void **state) {
  (void)state;
  void *block = hak_malloc(48);
  assert_ptr_equal(owner_of(block, 48), mine);
  hak_free(block);
  for (int i = 0; i < HEAPS; i++) assert_non_null(others[i] = heap_borrow());
  for (int i = 1; i < HEAPS && fellow == NULL; i++)
    if (others[i]->share_set == others[0]->share_set) fellow = others[i];
  assert_non_null(fellow);
  assert_true(share_is_on(class_for(SHARE_BYTES)));
  assert_false(share_is_on(class_for(SHARE_BYTES + 1)));
}

static void many_share_one(void **state) {
  (void)state;
  void *first = take(others[0], 64), *second = take(fellow, 64);
  assert_true(share_has_bin(map_bin(first)));
  assert_true(common_is(owner_of(first, 64)));
  assert_ptr_equal(map_slab(first), map_slab(second));
  assert_int_equal(others[0]->classes[class_for(64)].count, 0);
  assert_int_equal(fellow->classes[class_for(64)].count, 0);
  hak_free(first);
  hak_free(second);
  empty_bin(others[0], 64);
  empty_bin(fellow, 64);
}

static void sets_are_apart(void **state) {
  (void)state;
  bool other_set = false;
  struct heap *first = owner_of(take(others[0], 80), 80);
  for (int i = 1; i < HEAPS; i++) {
    struct heap *owner = owner_of(take(others[i], 80), 80);
    assert_true(share_has_bin(&owner->bins[0]));
    assert_int_equal(owner == first, others[i]->share_set == others[0]->share_set);
    other_set |= owner != first;
  }
  assert_true(other_set);
}

static void who_frees_one_has_it_next(void **state) {
  (void)state;
  unsigned size_class = class_for(96);
  void *block = hak_malloc(96), *again;
  assert_true(share_has_bin(map_bin(block)));
  hak_free(block);
  assert_ptr_equal(mine->bins[size_class].head, block);
  again = hak_malloc(96);
  assert_ptr_equal(again, block);
  hak_free(again);
}

static void realloc_knows_its_size(void **state) {
  (void)state;
  char *block = hak_malloc(112);
  assert_true(share_has_bin(map_bin(block)));
  assert_int_equal(front_own_usable(block), 112);
  assert_int_equal(front_own_usable(block + BLOCK_ALIGNMENT), 0);
  assert_ptr_equal(hak_realloc(block, 100), block);
  memset(block, 7, 112);
  char *moved = hak_realloc(block, 500);
  assert_ptr_not_equal(moved, block);
  for (int i = 0; i < 112; i++) assert_int_equal(moved[i], 7);
  hak_free(moved);
}

/* As a thread of which others' blocks are all it frees: they are for those who ask. */
static void who_only_frees_gathers_nothing(void **state) {
  (void)state;
  enum { BLOCKS = 300 };
  unsigned size_class = class_for(128);
  void *blocks[BLOCKS];
  take_many(others[0], 128, blocks, BLOCKS);
  struct heap *owner = owner_of(blocks[0], 128);
  for (int i = 0; i < BLOCKS; i++) {
    assert_ptr_equal(owner_of(blocks[i], 128), owner);
    hak_free(blocks[i]);
  }
  assert_null(mine->bins[size_class].head);
  assert_int_equal(mine->bins[size_class].capacity, 0);
  assert_true(atomic_load(&owner->inbox_bytes) > 0);
  /* Another finds one of them before anything new. */
  void *block = take(fellow, 128);
  bool was_there = false;
  for (int i = 0; i < BLOCKS; i++) was_there |= block == blocks[i];
  assert_true(was_there);
  empty_bin(others[0], 128);
  empty_bin(fellow, 128);
}

static void who_refills_often_has_slabs(void **state) {
  (void)state;
  enum { REFILLS = 64 };
  unsigned size_class = class_for(160), shared = 0;
  struct heap *heap = others[0];
  void *blocks[REFILLS];
  for (int i = 0; i < REFILLS; i++) {
    heap->shared_since = os_clock_ms();
    heap->bins[size_class].head = NULL; /* lost on purpose */
    heap->bins[size_class].room = (int32_t)heap->bins[size_class].capacity;
    blocks[i] = take(heap, 160);
    shared += share_has_bin(map_bin(blocks[i]));
  }
  assert_true(shared > 1 && shared < REFILLS / 2);
  assert_ptr_equal(owner_of(blocks[REFILLS - 1], 160), heap);
  assert_false(share_wanted(heap, size_class));
  assert_true(share_wanted(fellow, size_class));
  /* The next thread that has the heap begins anew. */
  common_park(heap);
  assert_true(share_wanted(heap, size_class));
}

/* However many blocks lie free in one slab of the shared heap, a refill is not much larger than any other. */
static void one_refill_does_not_take_all(void **state) {
  (void)state;
  enum { SIZE = 208, BLOCKS = 1000, MOST = 4096 / SIZE };
  static void *blocks[BLOCKS];
  take_many(others[0], SIZE, blocks, BLOCKS);
  for (int i = 0; i < BLOCKS; i++) remote_free(others[0], map_bin(blocks[i]), blocks[i]);
  remote_flush(others[0]);
  empty_bin(others[0], SIZE);
  hak_purge(); /* from the inbox into the slabs */
  (void)take(fellow, SIZE);
  unsigned held = blocks_in_bin(fellow, SIZE);
  assert_true(held > 0 && held < 2 * MOST);
}

/* Many short batches wait: a refill takes some. */
static void short_batches_make_one_refill(void **state) {
  (void)state;
  enum { SIZE = 240, BLOCKS = 100 };
  void *blocks[BLOCKS];
  take_many(others[0], SIZE, blocks, BLOCKS);
  for (int i = 0; i < BLOCKS; i++) remote_free_now(map_bin(blocks[i]), blocks[i]);
  (void)take(fellow, SIZE);
  unsigned held = blocks_in_bin(fellow, SIZE);
  assert_true(held + 1 >= 4096 / SIZE / 4 && held < 4096 / SIZE);
}

/* One block of a nearly empty slab of many: it may move, and its place is not the next. */
static void a_sparse_one_may_move(void **state) {
  (void)state;
  enum { SIZE = 256, BLOCKS = 2000 };
  static void *blocks[BLOCKS];
  unsigned size_class = class_for(SIZE);
  for (int i = 0; i < BLOCKS; i++) {
    mine->rented[size_class] = 0;
    blocks[i] = hak_malloc(SIZE);
    assert_true(share_has_bin(map_bin(blocks[i])));
  }
  void *last = blocks[BLOCKS / 2];
  for (int i = 0; i < BLOCKS; i++)
    if (i == BLOCKS / 2 || (map_slab(blocks[i]) != map_slab(last) && i % 2 == 0)) continue;
    else hak_free(blocks[i]);
  empty_bin(mine, SIZE);
  remote_flush(mine);
  struct heap *owner = owner_of(last, SIZE);
  lock_acquire(&owner->lock);
  while (slabs_put_batches(owner, size_class)) continue;
  lock_release(&owner->lock);
  superslab_settle();
  assert_true(hak_should_move(last));
  hak_free_moved(last);
  assert_ptr_not_equal(mine->bins[size_class].head, last);
  for (int i = 0; i < BLOCKS; i++)
    if (i != BLOCKS / 2 && map_slab(blocks[i]) != map_slab(last) && i % 2 == 0) hak_free(blocks[i]);
}

static void time_forgives(void **state) {
  (void)state;
  unsigned size_class = class_for(176);
  for (int i = 0; i < 1000; i++) {
    others[0]->shared_since = 0; /* long ago */
    assert_true(share_wanted(others[0], size_class));
    assert_non_null(share_heap(others[0], size_class));
  }
}

/* Blocks of its own slabs and of shared ones lie in one bin: each goes back to where it is from. */
static void bins_are_mixed(void **state) {
  (void)state;
  enum { BLOCKS = 3000 };
  static void *blocks[BLOCKS];
  unsigned size_class = class_for(192), own = 0;
  for (int i = 0; i < BLOCKS; i++) {
    mine->rented[size_class] = i % 2 == 0 ? 0 : UINT8_MAX;
    mine->borrowed[size_class] = UINT8_MAX; /* no loans */
    blocks[i] = hak_malloc(192);
    own += owner_of(blocks[i], 192) == mine;
  }
  assert_true(own > 0 && own < BLOCKS);
  struct heap *shared = NULL;
  for (int i = 0; i < BLOCKS; i++) {
    struct heap *owner = owner_of(blocks[i], 192);
    if (owner != mine) {
      assert_true(shared == NULL || shared == owner);
      shared = owner;
    }
    hak_free(blocks[i]);
  }
  empty_bin(mine, 192);
  hak_purge();
  for (int i = 0; i < 2; i++) {
    struct heap *heap = i == 0 ? mine : shared;
    uint64_t live = 0;
    for (struct slab *slab = heap->classes[size_class].first; slab != NULL; slab = slab->next)
      live += slab_carved(slab) - slab_free_count(slab);
    assert_int_equal(live, 0);
    assert_true(heap->classes[size_class].count <= 1);
  }
}

static void *free_in_a_thread_without_a_heap(void *block) {
  hak_free(block);
  return NULL;
}

static void a_thread_without_a_heap_frees(void **state) {
  (void)state;
  void *block = hak_malloc(224);
  assert_true(share_has_bin(map_bin(block)));
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, free_in_a_thread_without_a_heap, block), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
  assert_int_equal(heap_none.bins[class_for(224)].room, 0);
  assert_null(heap_none.bins[class_for(224)].head);
}

/* As in a fork's child whose parent had another thread inside. */
static void a_lost_one_is_left_alone(void **state) {
  (void)state;
  unsigned size_class = class_for(320);
  void *block = hak_malloc(320);
  struct heap *shared = owner_of(block, 320);
  assert_true(share_has_bin(&shared->bins[0]));
  pid_t child = fork();
  if (child == 0) {
    alarm(60);
    if (!share_lose(shared) || share_lose(mine)) _exit(1);
    if (share_heap(mine, size_class) != NULL) _exit(2);
    hak_free(block);
    static void *blocks[1000];
    for (int i = 0; i < 1000; i++) {
      blocks[i] = hak_malloc(320);
      if (blocks[i] == NULL) _exit(3);
    }
    if (owner_of(blocks[999], 320) != mine) _exit(4);
    for (int i = 0; i < 1000; i++) hak_free(blocks[i]);
    _exit(0);
  }
  int status = -1;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  hak_free(block);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(few_threads_have_slabs_of_their_own),
      cmocka_unit_test(many_share_one),
      cmocka_unit_test(sets_are_apart),
      cmocka_unit_test(who_frees_one_has_it_next),
      cmocka_unit_test(realloc_knows_its_size),
      cmocka_unit_test(who_only_frees_gathers_nothing),
      cmocka_unit_test(who_refills_often_has_slabs),
      cmocka_unit_test(one_refill_does_not_take_all),
      cmocka_unit_test(short_batches_make_one_refill),
      cmocka_unit_test(a_sparse_one_may_move),
      cmocka_unit_test(time_forgives),
      cmocka_unit_test(bins_are_mixed),
      cmocka_unit_test(a_thread_without_a_heap_frees),
      cmocka_unit_test(a_lost_one_is_left_alone),
  };
  return cmocka_run_group_tests(tests, start, end);
}
