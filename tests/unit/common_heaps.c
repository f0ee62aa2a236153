/* common_heaps.c - larger blocks of a program with many threads: common slabs, until a thread asks too often. */
#include "common_blocks.h"
#include "superslab/unit.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "front/fast.h"
#include "heap/common.h"
#include "heap/remote.h"
#include "heap/slabs.h"
#include "os/fault.h"

WITHOUT_SAMPLES;

enum { HEAPS = COMMON_FROM_HEAPS + 1, MANY = FEW_HEAPS + 2, MOST = 200 };
static const size_t size = 24 * KIB;
static struct heap *mine, *others[MANY];

static int start(void **state) {
  (void)state;
  hak_free(hak_malloc(1));
  mine = heap_of_thread();
  for (int i = 0; i < HEAPS; i++)
    if ((others[i] = heap_borrow()) == NULL) return -1;
  return mine != NULL ? 0 : -1;
}

static int end(void **state) {
  (void)state;
  for (int i = 0; i < HEAPS; i++) heap_return(others[i]);
  return 0;
}

static void put(struct heap *heap, void *block) {
  guard_freed(block, map_bin(block));
  remote_free(heap, map_bin(block), block);
}

static void small_blocks_are_a_threads_own(void **state) {
  (void)state;
  void *block = take(others[0], COMMON_ABOVE);
  assert_ptr_equal(owner_of(block, COMMON_ABOVE), others[0]);
  assert_false(common_wanted(others[1], class_for(COMMON_ABOVE)));
  assert_true(common_wanted(others[1], class_for(COMMON_ABOVE + 1)));
}

static void larger_ones_are_common(void **state) {
  (void)state;
  void *first = take(others[1], size), *second = take(others[2], size);
  assert_true(common_is(owner_of(first, size)));
  assert_ptr_equal(map_slab(first), map_slab(second)); /* one slab for both */
  assert_int_equal(others[1]->classes[class_for(size)].count, 0);
  /* Who frees one has it, whoever had it before; another thread has not. */
  put(others[2], first);
  assert_ptr_equal(bin_pop(&others[2]->bins[class_for(size)]), first);
  guard_allocated(first, class_for(size));
  put(others[1], first);
  put(others[1], second);
}

static void what_runs_over_comes_back_to_all(void **state) {
  (void)state;
  unsigned size_class = class_for(64 * KIB);
  void *blocks[4];
  for (int i = 0; i < 4; i++) blocks[i] = take(others[3], 64 * KIB);
  struct heap *common = owner_of(blocks[0], 64 * KIB);
  for (int i = 0; i < 4; i++) put(others[3], blocks[i]);
  assert_true(others[3]->common_bins <= 128 * KIB);
  size_t kept = 0;
  for (void *block = others[3]->bins[size_class].head; block != NULL; block = link_next(block))
    kept++;
  assert_true(kept * 64 * KIB <= 128 * KIB);
  /* Another thread finds the rest, and no slab is made for it. */
  uint32_t slabs = common->classes[size_class].count;
  for (size_t i = 0; i < 4 - kept; i++) {
    void *block = take(others[4], 64 * KIB);
    bool was_there = false;
    for (int j = 0; j < 4; j++) was_there |= block == blocks[j];
    assert_true(was_there);
    put(others[4], block);
  }
  assert_int_equal(common->classes[size_class].count, slabs);
}

static void who_asks_often_has_slabs(void **state) {
  (void)state;
  unsigned size_class = class_for(size), common = 0;
  void *blocks[MOST];
  for (int i = 0; i < MOST; i++) {
    others[5]->rented_since = os_clock_ms();
    blocks[i] = take(others[5], size);
    common += common_is(owner_of(blocks[i], size));
  }
  assert_true(common > 0 && common < MOST / 4);
  assert_ptr_equal(owner_of(blocks[MOST - 1], size), others[5]);
  assert_false(common_wanted(others[5], size_class));
  /* A common block that it frees does not go round in its bin. */
  put(others[5], blocks[0]);
  assert_null(others[5]->bins[size_class].head);
  for (int i = 1; i < MOST; i++)
    if (common_is(owner_of(blocks[i], size))) put(others[5], blocks[i]);
    else put(mine, blocks[i]);
  common_park(others[5]);
  assert_true(common_wanted(others[5], size_class));
}

/* Where a common heap gets no memory, what the thread's heap has is taken. */
static void without_memory_for_them_a_thread_has_its_own(void **state) {
  (void)state;
  enum { SPANS = 4096 };
  const size_t rare = 28 * KIB; /* no other test leaves anything of it */
  static struct slab *spans[SPANS];
  unsigned size_class = class_for(rare), count = 0;
  struct heap *rich = others[2], *poor = others[3];
  rich->rented[size_class] = UINT8_MAX;
  void *first = take(rich, rare), *rest = NULL, *block;
  rich->rented[size_class] = 0;
  assert_ptr_equal(owner_of(first, rare), rich);
  assert_true(common_wanted(rich, size_class));
  unit_trim();
  os_fault_fail_from(1);
  bool zeroed;
  for (unsigned slices = SLICES_PER_UNIT; slices > 0; slices /= 2)
    while (count < SPANS &&
           (spans[count] = span_acquire(slices, 1, KIND_SLAB, PAGES_SMALL, 0, &zeroed)) != NULL)
      spans[count++]->touched = 0;
  /* All that the common heap has. */
  for (;; rest = block) {
    poor->rented[size_class] = 0;
    if ((block = refill(poor, size_class, false, NULL)) == NULL) break;
    guard_allocated(block, size_class);
    *(void **)block = rest;
  }
  block = refill(rich, size_class, false, NULL);
  os_fault_reset();
  assert_true(count < SPANS);
  while (count > 0) span_release(spans[--count]);
  assert_non_null(block);
  guard_allocated(block, size_class);
  assert_ptr_equal(owner_of(block, rare), rich);
  put(mine, first);
  put(mine, block);
  while ((block = rest) != NULL) {
    rest = *(void **)block;
    put(mine, block);
  }
}

static void time_forgives(void **state) {
  (void)state;
  unsigned size_class = class_for(size);
  for (int i = 0; i < MOST; i++) {
    others[6]->rented_since = 0; /* long ago */
    common_rent(others[6], size_class);
  }
  assert_true(common_wanted(others[6], size_class));
}

/* From now on there are many heaps. */
static void of_many_threads_those_of_rare_sizes_are_common(void **state) {
  (void)state;
  const size_t rare = 1300;
  unsigned size_class = class_for(rare);
  for (int i = HEAPS; i < MANY; i++) assert_non_null(others[i] = heap_borrow());
  struct heap *first = others[MANY - 2], *second = others[MANY - 1];
  assert_false(common_wanted(first, class_for(COMMON_OF_MANY_ABOVE)));
  void *one = take(first, rare), *two = take(second, rare);
  assert_true(common_is(owner_of(one, rare)));
  assert_ptr_equal(map_slab(one), map_slab(two)); /* one slab for both */
  void *blocks[MOST];
  unsigned common = 0;
  for (int i = 0; i < MOST; i++) {
    first->rented_since = os_clock_ms();
    blocks[i] = bin_pop(&first->bins[size_class]);
    if (blocks[i] == NULL) blocks[i] = take(first, rare);
    else guard_allocated(blocks[i], size_class);
    common += common_is(owner_of(blocks[i], rare));
  }
  assert_true(common > 0 && common < MOST / 4);
  /* With slabs of its own it takes no more of them, the next thread neither. */
  assert_false(common_wanted(first, size_class));
  common_park(first);
  assert_false(common_wanted(first, size_class));
  assert_true(common_wanted(second, size_class));
  void *before = first->bins[size_class].head;
  put(first, one);
  assert_ptr_equal(first->bins[size_class].head, before);
  put(second, two);
  for (int i = 0; i < MOST; i++) put(second, blocks[i]);
  for (int i = HEAPS; i < MANY; i++) heap_return(others[i]);
}

static void engine_empties_it(void **state) {
  (void)state;
  void *block = take(others[7], 40 * KIB);
  struct heap *common = owner_of(block, 40 * KIB);
  others[7]->rented[class_for(40 * KIB)] = UINT8_MAX; /* so that it goes back at once */
  put(others[7], block);
  assert_true(atomic_load(&common->inbox_bytes) > 0);
  hak_purge();
  assert_int_equal(atomic_load(&common->inbox_bytes), 0);
  for (unsigned c = 0; c < CLASS_COUNT; c++) assert_null(common->bins[c].head);
}

static void child_goes_on(void **state) {
  (void)state;
  void *block = take(others[8], size);
  pid_t child = fork();
  if (child == 0) {
    struct heap *heap = heap_borrow();
    for (int i = 0; heap != NULL && i < MOST; i++) {
      void *its = hak_malloc(size);
      if (its == NULL || its == block) _exit(1);
    }
    _exit(heap != NULL && common_is(owner_of(block, size)) ? 0 : 2);
  }
  int status = -1;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  put(others[8], block);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(small_blocks_are_a_threads_own),
      cmocka_unit_test(larger_ones_are_common),
      cmocka_unit_test(what_runs_over_comes_back_to_all),
      cmocka_unit_test(who_asks_often_has_slabs),
      cmocka_unit_test(without_memory_for_them_a_thread_has_its_own),
      cmocka_unit_test(time_forgives),
      cmocka_unit_test(engine_empties_it),
      cmocka_unit_test(of_many_threads_those_of_rare_sizes_are_common),
      cmocka_unit_test(child_goes_on),
  };
  return cmocka_run_group_tests(tests, start, end);
}
