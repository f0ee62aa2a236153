/* named_heaps.c - heaps of their own: allocation in every tier, the limit, figures, the walk, and the end of all blocks at once. */
#include "front/block.h"
#include "heap/named.h"
#include "unit_test.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCKS = 3000, THREADS = 4 };

static struct hak_heap_stats figures_of(hak_heap *heap) {
  struct hak_heap_stats stats = {.size = sizeof stats};
  assert_int_equal(hak_heap_stats_get(heap, &stats), 0);
  return stats;
}

static void fill(unsigned char *block, size_t size) { memset(block, (int)(size % 251 + 1), size); }

static void check(const unsigned char *block, size_t size) {
  for (size_t i = 0; i < size; i += size < 4096 ? 1 : 997)
    assert_int_equal(block[i], size % 251 + 1);
}

static void serves_every_tier(void **state) {
  (void)state;
  hak_heap *heap = hak_heap_create("tiers", 0);
  assert_non_null(heap);
  assert_string_equal(hak_heap_name(heap), "tiers");
  void *blocks[TEST_SIZE_COUNT];
  for (int i = 0; i < TEST_SIZE_COUNT; i++) {
    blocks[i] = hak_heap_malloc(heap, test_sizes[i]);
    assert_non_null(blocks[i]);
    fill(blocks[i], test_sizes[i]);
    assert_ptr_equal(hak_heap_of(blocks[i]), heap);
    assert_true(hak_owns(blocks[i]));
    assert_true(hak_usable_size(blocks[i]) >= test_sizes[i]);
    assert_false(hak_should_move(blocks[i]));
  }
  assert_int_equal(figures_of(heap).live_blocks, TEST_SIZE_COUNT);
  for (int i = 0; i < TEST_SIZE_COUNT; i++) {
    check(blocks[i], test_sizes[i]);
    hak_free(blocks[i]);
  }
  assert_int_equal(figures_of(heap).live_blocks, 0);
  assert_int_equal(figures_of(heap).live_bytes, 0);
  hak_heap_destroy(heap);
}

static void others_are_in_no_heap(void **state) {
  (void)state;
  int on_stack;
  void *small = hak_malloc(100), *large = hak_malloc(100000), *huge = hak_malloc(5 * MIB);
  assert_null(hak_heap_of(small));
  assert_null(hak_heap_of(large));
  assert_null(hak_heap_of(huge));
  assert_null(hak_heap_of(&on_stack));
  assert_null(hak_heap_of(NULL));
  hak_free(small);
  hak_free(large);
  hak_free(huge);
  hak_heap_destroy(NULL);
}

static void zeroed_and_aligned(void **state) {
  (void)state;
  hak_heap *heap = hak_heap_create(NULL, 0);
  assert_string_equal(hak_heap_name(heap), "");
  static const size_t sizes[] = {1, 100, 5000, 70000, 3 * MIB};
  for (int round = 0; round < 3; round++)
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
      unsigned char *block = hak_heap_calloc(heap, sizes[i], 1);
      size_t zeros = 0;
      while (zeros < sizes[i] && block[zeros] == 0) zeros++;
      assert_int_equal(zeros, sizes[i]);
      memset(block, 0xff, sizes[i]);
      hak_free(block);
    }
  for (unsigned shift = 0; shift <= 22; shift++) {
    size_t alignment = (size_t)1 << shift;
    char *block = hak_heap_aligned_alloc(heap, alignment, 300);
    assert_non_null(block);
    assert_int_equal((uintptr_t)block % alignment, 0);
    assert_ptr_equal(hak_heap_of(block), heap);
  }
  volatile size_t no_power_of_two = 48;
  errno = 0;
  assert_null(hak_heap_aligned_alloc(heap, no_power_of_two, 300));
  assert_int_equal(errno, EINVAL);
  errno = 0;
  volatile size_t half = SIZE_MAX / 2;
  assert_null(hak_heap_calloc(heap, half, 4));
  assert_int_equal(errno, ENOMEM);
  assert_null(hak_heap_malloc(heap, half + 1));
  hak_heap_destroy(heap);
}

static void resized_blocks_stay(void **state) {
  (void)state;
  static const size_t sizes[] = {10,    100,    24,      3000,     900,     40000,  70000,
                                 66000, 500000, 3 * MIB, 40 * MIB, 5 * MIB, 100000, 50};
  hak_heap *heap = hak_heap_create("resized", 0);
  unsigned char *block = hak_heap_realloc(heap, NULL, 1);
  block[0] = 77;
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    block = i % 2 == 0 ? hak_realloc(block, sizes[i]) : hak_heap_realloc(heap, block, sizes[i]);
    assert_non_null(block);
    assert_int_equal(block[0], 77);
    assert_ptr_equal(hak_heap_of(block), heap);
    struct hak_heap_stats stats = figures_of(heap);
    assert_int_equal(stats.live_blocks, 1);
    if (strcmp(hak_variant(), "hardened") != 0)
      assert_int_equal(stats.live_bytes, hak_usable_size(block));
  }
  assert_null(hak_heap_realloc(heap, block, 0)); /* as realloc */
  assert_int_equal(figures_of(heap).live_blocks, 0);
  hak_heap_destroy(heap);
}

static void the_limit_holds(void **state) {
  (void)state;
  enum { LIMIT = 1000000 };
  hak_heap *heap = hak_heap_create("limited", LIMIT);
  size_t count = 0;
  void *blocks[BLOCKS], *last = NULL;
  errno = 0;
  while (count < BLOCKS && (last = hak_heap_malloc(heap, 1000)) != NULL) blocks[count++] = last;
  assert_null(last);
  assert_int_equal(errno, ENOMEM);
  struct hak_heap_stats stats = figures_of(heap);
  assert_int_equal(stats.live_blocks, count);
  assert_true(stats.live_bytes <= LIMIT && stats.live_bytes > LIMIT - 2000);
  assert_int_equal(stats.limit, LIMIT);
  assert_true(stats.refused >= 1);
  errno = 0;
  assert_null(hak_heap_malloc(heap, 200000));
  assert_int_equal(errno, ENOMEM);
  errno = 0;
  assert_null(hak_realloc(blocks[0], 500000));
  assert_int_equal(errno, ENOMEM);
  assert_non_null(hak_malloc(100)); /* not limited */
  for (size_t i = 0; i < count; i++) hak_free(blocks[i]);
  void *large = hak_heap_malloc(heap, 900000);
  assert_non_null(large);
  assert_null(hak_heap_malloc(heap, 200000));
  hak_free(large);
  assert_null(hak_heap_malloc(heap, LIMIT + 1));
  assert_int_equal(figures_of(heap).live_bytes, 0);
  assert_true(figures_of(heap).peak_bytes <= LIMIT);
  hak_heap_destroy(heap);
}

struct found {
  void *blocks[BLOCKS + 100];
  size_t count, bytes, most;
};

static bool note(void *block, size_t usable, void *argument) {
  struct found *found = argument;
  assert_true(found->count < BLOCKS + 100);
  found->blocks[found->count++] = block;
  found->bytes += usable;
  return found->count < found->most;
}

static int by_address(const void *a, const void *b) {
  uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;
  return (x > y) - (x < y);
}

/* After frees, a purge that gives pages back, and more frees into bins. */
/* Another thread may allocate meanwhile. */
static void a_block_counts_while_it_is_resized(void **state) {
  (void)state;
  struct hak_heap *heap = hak_heap_create("resized", 3 * MIB);
  struct named_figures figures;
  char *held = hak_heap_malloc(heap, 2 * MIB);
  assert_non_null(held);
  struct block block = block_find(held);
  struct slab *descriptor = &block.superslab->slabs[0];
  assert_ptr_equal(named_of_span(descriptor), heap);
  assert_true(named_begin_resize(heap, descriptor, block.usable, 600 * KIB));
  assert_false(named_begin_resize(heap, NULL, 100, 600 * KIB)); /* beyond the limit */
  assert_null(hak_heap_malloc(heap, 600 * KIB));
  named_figures_get(heap, &figures);
  assert_int_equal(figures.live_blocks, 1);
  assert_int_equal(figures.live_bytes, block.usable + 600 * KIB);
  named_end_resize(heap, descriptor, block.usable + 600 * KIB, block.usable);
  named_figures_get(heap, &figures);
  assert_int_equal(figures.live_bytes, block.usable);
  hak_free(held);
  named_figures_get(heap, &figures);
  assert_int_equal(figures.live_bytes + figures.live_blocks, 0);
  hak_heap_destroy(heap);
}

/* It would be two heaps to come. */
static void a_second_destroy_ends_the_program(void **state) {
  (void)state;
  struct hak_heap *heap = hak_heap_create("twice", 0);
  hak_heap_destroy(heap);
  pid_t child = fork();
  if (child == 0) {
    close(STDERR_FILENO);
    hak_heap_destroy(heap);
    _exit(0);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

static void the_walk_finds_what_lives(void **state) {
  (void)state;
  static void *blocks[BLOCKS];
  static struct found found;
  hak_heap *heap = hak_heap_create("walked", 0);
  for (int i = 0; i < BLOCKS; i++) {
    size_t size = i % 97 == 0 ? 100000 : i % 500 == 1 ? 2 * MIB + 5 : (size_t)(i * 37 % 3000);
    blocks[i] = hak_heap_malloc(heap, size);
    assert_non_null(blocks[i]);
  }
  size_t live = 0;
  for (int i = 0; i < BLOCKS; i++) {
    if (i % 3 == 0 || (i > 1000 && i < 2500)) {
      hak_free(blocks[i]);
      if (i == 2400) hak_purge();
    } else {
      blocks[live++] = blocks[i];
    }
  }
  found = (struct found){.most = BLOCKS + 100};
  assert_true(hak_heap_walk(heap, note, &found));
  assert_int_equal(found.count, live);
  assert_int_equal(found.bytes, figures_of(heap).live_bytes);
  qsort(blocks, live, sizeof *blocks, by_address);
  qsort(found.blocks, found.count, sizeof *found.blocks, by_address);
  assert_memory_equal(blocks, found.blocks, live * sizeof *blocks);
  found = (struct found){.most = 10};
  assert_false(hak_heap_walk(heap, note, &found));
  assert_int_equal(found.count, 10);
  hak_heap_destroy(heap);
}

static bool free_some(void *block, size_t usable, void *argument) {
  size_t *count = argument;
  void *other = hak_malloc(usable);
  assert_non_null(other);
  if (++*count % 2 == 0) hak_free(block);
  if (*count % 500 == 0) hak_purge();
  hak_free(other);
  return true;
}

static bool count_walked(void *block, size_t usable, void *argument) {
  (void)block, (void)usable;
  ++*(size_t *)argument;
  return true;
}

static void a_visitor_may_free_its_block(void **state) {
  (void)state;
  hak_heap *heap = hak_heap_create("weeded", 0);
  for (int i = 0; i < BLOCKS; i++)
    assert_non_null(hak_heap_malloc(heap, i % 50 == 0 ? 90000 : (size_t)(i * 37 % 3000)));
  size_t walked = 0;
  assert_true(hak_heap_walk(heap, free_some, &walked));
  assert_int_equal(walked, BLOCKS);
  assert_int_equal(figures_of(heap).live_blocks, BLOCKS / 2);
  walked = 0;
  assert_true(hak_heap_walk(heap, count_walked, &walked));
  assert_int_equal(walked, BLOCKS / 2);
  for (int i = 0; i < BLOCKS; i++) assert_non_null(hak_heap_malloc(heap, (size_t)(i * 37 % 3000)));
  hak_purge();
  hak_heap_destroy(heap);
}

static size_t most_in_bin;

static bool free_all(void *block, size_t usable, void *argument) {
  hak_heap *heap = argument;
  hak_free(block);
  const struct bin *bin = &heap->bins[class_for(usable)];
  size_t held = (size_t)((int32_t)bin->capacity - bin->room);
  if (held > most_in_bin) most_in_bin = held;
  return true;
}

/* Each slab that is walked looks through what is freed and in no slab yet. */
static void what_a_visitor_frees_is_not_looked_through_again(void **state) {
  (void)state;
  hak_heap *heap = hak_heap_create("emptied", 0);
  for (int i = 0; i < 20 * BLOCKS; i++) assert_non_null(hak_heap_malloc(heap, 64));
  most_in_bin = 0;
  assert_true(hak_heap_walk(heap, free_all, heap));
  assert_in_range(most_in_bin, 0, 200);
  assert_int_equal(figures_of(heap).live_blocks, 0);
  assert_in_range(figures_of(heap).held_bytes, 0, 2 * MIB); /* the slabs are empty, and go */
  size_t walked = 0;
  assert_true(hak_heap_walk(heap, count_walked, &walked));
  assert_int_equal(walked, 0);
  for (int i = 0; i < BLOCKS; i++) assert_non_null(hak_heap_malloc(heap, 64));
  hak_heap_destroy(heap);
}

static bool free_and_walk(void *block, size_t usable, void *argument) {
  (void)usable;
  hak_heap *heap = argument;
  size_t walked = 0, before = figures_of(heap).live_blocks;
  hak_free(block);
  if (before % 100 != 0) return true;
  assert_true(hak_heap_walk(heap, count_walked, &walked));
  assert_int_equal(walked, before - 1);
  return true;
}

static void a_walk_within_a_walk_sees_what_was_freed(void **state) {
  (void)state;
  hak_heap *heap = hak_heap_create("walked within", 0);
  for (int i = 0; i < 2000; i++) assert_non_null(hak_heap_malloc(heap, 700));
  assert_true(hak_heap_walk(heap, free_and_walk, heap));
  assert_int_equal(figures_of(heap).live_blocks, 0);
  hak_heap_destroy(heap);
}

static void *allocate_and_free(void *heap) {
  for (int i = 0; i < 3000; i++) {
    void *block = hak_heap_malloc(heap, (size_t)(i % 2000));
    if (i % 3 != 0) hak_free(block);
  }
  return NULL;
}

static bool purge_now_and_then(void *block, size_t usable, void *argument) {
  (void)block, (void)usable;
  if (++*(size_t *)argument % 100 == 0) hak_purge();
  return true;
}

static void *walk_and_purge(void *heap) {
  for (int i = 0; i < 5 * MEETINGS; i++) {
    size_t walked = 0;
    hak_heap_walk(heap, purge_now_and_then, &walked);
  }
  return NULL;
}

/* Who waits for a walk holds nothing that its visitor may need. */
static void walks_wait_for_each_other(void **state) {
  (void)state;
  hak_heap *heap = hak_heap_create("walked twice", 0);
  for (int i = 0; i < 500; i++) assert_non_null(hak_heap_malloc(heap, 3000));
  pthread_t threads[THREADS];
  alarm(120);
  for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, walk_and_purge, heap);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  alarm(0);
  hak_heap_destroy(heap);
}

static bool free_and_count(void *block, size_t usable, void *argument) {
  (void)usable;
  hak_free(block);
  ++*(size_t *)argument;
  return true;
}

static void *walk_and_free(void *heap) {
  size_t freed = 0;
  hak_heap_walk(heap, free_and_count, &freed);
  return (void *)freed; /* NOLINT(performance-no-int-to-ptr) */
}

/* The second begins while what the first has freed is on its way into slabs. */
static void walks_that_free_come_to_each_block_once(void **state) {
  (void)state;
#if defined(UNIT_EMULATED)
  enum { ROUNDS = 1, FREED = 5 * BLOCKS };
#else
  enum { ROUNDS = 5, FREED = 20 * BLOCKS };
#endif
  for (int round = 0; round < ROUNDS; round++) {
    hak_heap *heap = hak_heap_create("emptied twice", 0);
    for (int i = 0; i < FREED; i++) assert_non_null(hak_heap_malloc(heap, 64));
    pthread_t threads[THREADS];
    void *freed;
    size_t all = 0;
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, walk_and_free, heap);
    for (int i = 0; i < THREADS; i++) {
      pthread_join(threads[i], &freed);
      all += (size_t)freed;
    }
    assert_int_equal(all, FREED);
    assert_int_equal(figures_of(heap).live_blocks, 0);
    hak_heap_destroy(heap);
  }
}

static void a_walk_beside_threads(void **state) {
  (void)state;
  hak_heap *heap = hak_heap_create("busy", 0);
  pthread_t threads[2];
  for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, allocate_and_free, heap);
  for (int i = 0; i < 50; i++) {
    size_t walked = 0;
    assert_true(hak_heap_walk(heap, count_walked, &walked));
    if (i % 10 == 0) hak_purge();
  }
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  size_t walked = 0;
  assert_true(hak_heap_walk(heap, count_walked, &walked));
  assert_int_equal(walked, 2000);
  hak_heap_destroy(heap);
}

static bool count_heaps(hak_heap *heap, void *argument) {
  if (strncmp(hak_heap_name(heap), "each-", 5) == 0) ++*(int *)argument;
  return true;
}

static void heaps_are_told_apart(void **state) {
  (void)state;
  enum { HEAPS = 700 }; /* more than a page of numbers */
  static hak_heap *heaps[HEAPS];
  static void *blocks[HEAPS];
  char name[100];
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < HEAPS; i++) {
      snprintf(name, sizeof name, "each-%d-%070d", i, 1);
      heaps[i] = hak_heap_create(name, 0);
      assert_non_null(heaps[i]);
      assert_int_equal(strlen(hak_heap_name(heaps[i])), 63);
      blocks[i] = hak_heap_malloc(heaps[i], i % 2 == 0 ? 50 : 80000);
    }
    int found = 0;
    assert_true(hak_heap_each(count_heaps, &found));
    assert_int_equal(found, HEAPS);
    for (int i = 0; i < HEAPS; i++) assert_ptr_equal(hak_heap_of(blocks[i]), heaps[i]);
    for (int i = 0; i < HEAPS; i++) hak_heap_destroy(heaps[i]);
    found = 0;
    hak_heap_each(count_heaps, &found);
    assert_int_equal(found, 0);
  }
}

static size_t mapped(void) {
  struct hak_stats stats = {.size = sizeof stats};
  hak_purge();
  hak_stats_get(&stats);
  return stats.bytes_mapped;
}

static void its_memory_comes_back(void **state) {
  (void)state;
  size_t before = mapped(), most = 0;
  for (int round = 0; round < 12; round++) { /* 22 MiB in each */
    hak_heap *heap = hak_heap_create("round", 0);
    for (int i = 0; i < 20000; i++) {
      char *block = hak_heap_malloc(heap, (size_t)(i * 31 % 2000 + 1));
      assert_non_null(block);
      block[0] = 1;
      if (i % 3 == 0) hak_free(block);
    }
    for (int i = 0; i < 10; i++) assert_non_null(hak_heap_malloc(heap, 300000));
    assert_non_null(hak_heap_malloc(heap, 7 * MIB));
    hak_heap_destroy(heap);
    size_t now = mapped();
    if (now > most) most = now;
  }
  assert_true(most <= before + 4 * MIB);
}

static void *destroy(void *heap) {
  hak_heap_destroy(heap);
  return NULL;
}

static void another_thread_destroys(void **state) {
  (void)state;
  for (int round = 0; round < 12 * MEETINGS; round++) {
    hak_heap *heap = hak_heap_create("other", 0);
    for (int i = 0; i < 500; i++) assert_non_null(hak_heap_malloc(heap, 64));
    pthread_t thread;
    pthread_create(&thread, NULL, destroy, heap);
    pthread_join(thread, NULL);
  }
}

/* --- threads ------------------------------------------------------------------------------------------------ */

enum { ROUNDS = 4, SHARED = 256 };

static hak_heap *shared_heaps[2];
static _Atomic(unsigned char *) shared[SHARED];

static void *exchange(void *argument) {
  uint64_t random = (uintptr_t)argument * 0x9e3779b97f4a7c15u + 1;
  for (int i = 0; i < 5000 * MEETINGS; i++) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    size_t size = random >> 40 & ((random >> 20 & 63) == 0 ? 0x1ffff : 0x3ff);
    if (size < 2) size = 2;
    unsigned char *block = hak_heap_malloc(shared_heaps[random >> 63], size);
    assert_non_null(block);
    block[0] = (unsigned char)size;
    block[size - 1] = (unsigned char)size;
    block = atomic_exchange(&shared[random >> 33 & (SHARED - 1)], block);
    if (block != NULL) hak_free(block);
    if (i % 64 == 0) hak_free(hak_malloc(size)); /* of the thread's own heap */
  }
  return NULL;
}

static void threads_share_heaps_that_end(void **state) {
  (void)state;
  for (int round = 0; round < ROUNDS; round++) {
    pthread_t threads[THREADS];
    for (int i = 0; i < 2; i++) shared_heaps[i] = hak_heap_create("shared", 0);
    for (uintptr_t i = 0; i < THREADS; i++)
      pthread_create(&threads[i], NULL, exchange, (void *)(i + 1));
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    size_t live = 0;
    for (int i = 0; i < SHARED; i++) live += atomic_exchange(&shared[i], NULL) != NULL;
    assert_int_equal(
        figures_of(shared_heaps[0]).live_blocks + figures_of(shared_heaps[1]).live_blocks, live);
    for (int i = 0; i < 2; i++) hak_heap_destroy(shared_heaps[i]);
  }
}

static atomic_bool stop;

static void *churn(void *heap) {
  while (!atomic_load(&stop)) hak_free(hak_heap_malloc(heap, 100));
  return NULL;
}

/* A heap that another thread was at work in is lost to the child, others are whole. */
static void a_child_has_heaps(void **state) {
  (void)state;
  hak_heap *quiet = hak_heap_create("quiet", 0), *busy = hak_heap_create("busy", 0);
  pthread_t thread;
  atomic_store(&stop, false);
  pthread_create(&thread, NULL, churn, busy);
  for (int round = 0; round < 25 * MEETINGS; round++) {
    unsigned char *block = hak_heap_malloc(quiet, 1000);
    fill(block, 1000);
    pid_t child = fork();
    if (child == 0) {
      check(block, 1000);
      hak_free(block);
      bool works = hak_heap_malloc(quiet, 70000) != NULL;
      hak_free(hak_heap_malloc(busy, 10));
      hak_heap_destroy(busy);
      hak_heap_destroy(quiet);
      hak_heap *heap = hak_heap_create("child", 0);
      works = works && heap != NULL && hak_heap_malloc(heap, 10) != NULL;
      hak_heap_destroy(heap);
      _exit(works ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    hak_free(block);
  }
  atomic_store(&stop, true);
  pthread_join(thread, NULL);
  hak_heap_destroy(busy);
  hak_heap_destroy(quiet);
}

static void short_structures_are_kept(void **state) {
  (void)state;
  hak_heap *heap = hak_heap_create("short", 0);
  hak_free(hak_heap_malloc(heap, 10));
  struct hak_heap_stats stats;
  memset(&stats, 0xa5, sizeof stats);
  stats.size = offsetof(struct hak_heap_stats, live_bytes);
  assert_int_equal(hak_heap_stats_get(heap, &stats), 0);
  assert_int_equal(stats.live_blocks, 0);
  assert_int_equal(stats.live_bytes, 0xa5a5a5a5a5a5a5a5u);
  stats.size = 3;
  assert_int_equal(hak_heap_stats_get(heap, &stats), EINVAL);
  hak_heap_destroy(heap);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(serves_every_tier),
      cmocka_unit_test(others_are_in_no_heap),
      cmocka_unit_test(zeroed_and_aligned),
      cmocka_unit_test(resized_blocks_stay),
      cmocka_unit_test(the_limit_holds),
      cmocka_unit_test(a_block_counts_while_it_is_resized),
      cmocka_unit_test(a_second_destroy_ends_the_program),
      cmocka_unit_test(the_walk_finds_what_lives),
      cmocka_unit_test(heaps_are_told_apart),
      cmocka_unit_test(a_visitor_may_free_its_block),
      cmocka_unit_test(what_a_visitor_frees_is_not_looked_through_again),
      cmocka_unit_test(a_walk_within_a_walk_sees_what_was_freed),
      cmocka_unit_test(a_walk_beside_threads),
      cmocka_unit_test(walks_wait_for_each_other),
      cmocka_unit_test(walks_that_free_come_to_each_block_once),
      cmocka_unit_test(its_memory_comes_back),
      cmocka_unit_test(another_thread_destroys),
      cmocka_unit_test(threads_share_heaps_that_end),
      cmocka_unit_test(a_child_has_heaps),
      cmocka_unit_test(short_structures_are_kept),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
