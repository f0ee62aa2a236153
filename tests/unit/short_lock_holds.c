/* short_lock_holds.c - how much is done in one hold of a lock for which another thread's malloc, or a fork, may have to wait.
 *
 * Work is counted, not time. The functions that do it are wrapped by the linker. They mark the lock as waited for, and the
 * release of a lock takes the mark away: the next piece of work that finds it is done in the same hold. One thread at a time,
 * so nobody else marks it. */
#include "superslab/unit_os.h"
#include "unit_test.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "front/fast.h"
#include "heap/bins.h"
#include "heap/fork.h"
#include "heap/refill.h"
#include "heap/remote.h"
#include "heap/slabs.h"
#include "policy/options.h"
#include "release/release.h"
#include "superslab/figures.h"

WITHOUT_SAMPLES;

/* A block is a cache miss or two, about 0.1 us: half a millisecond. The bound in the code is lower, by a run of blocks of one
 * slab (4,096) at most. */
enum { BLOCKS_MOST = 5120 };

/* --- the meter --------------------------------------------------------------------------------------------------- */

static struct lock *held; /* in which there was work last */
static uint64_t in_hold, most_in_hold, in_all;

static bool is_marked(struct lock *lock) {
  return (atomic_fetch_or(&lock->state, LOCK_WAITERS) & LOCK_WAITERS) != 0;
}

static void meter_start(void) {
  held = NULL;
  in_hold = most_in_hold = in_all = 0;
}

static void work(struct lock *lock, uint64_t pieces) {
  if (!is_marked(lock) || lock != held) in_hold = 0;
  held = lock;
  in_hold += pieces;
  in_all += pieces;
  if (in_hold > most_in_hold) most_in_hold = in_hold;
}

static bool measures_blocks;

void __real_slab_put(struct slab *slab, void *first, void *last, unsigned count);
void __wrap_slab_put(struct slab *slab, void *first, void *last, unsigned count);
void __wrap_slab_put(struct slab *slab, void *first, void *last, unsigned count) {
  if (measures_blocks) work(&arena_of_inbox(map_inbox(first), slab->size_class)->lock, count);
  __real_slab_put(slab, first, last, count);
}

/* --- blocks that go back into slabs --------------------------------------------------------------------------------- */

enum { BLOCKS = 100000, SIZE = 96 }; /* together more than RELEASE_MOST: refills sort them */
static void *blocks[BLOCKS];

static void *from_heap(struct thread_cache *heap, size_t size) {
  unsigned size_class = class_for(size);
  void *block = bin_pop(&heap->bins[size_class]);
  return block != NULL ? block : refill(heap, size_class, false, NULL);
}

static struct thread_cache *borrow(void) {
  struct thread_cache *heap = cache_borrow();
  assert_non_null(heap);
  return heap;
}

static void fill(struct thread_cache *heap, size_t size) {
  for (int i = 0; i < BLOCKS; i++) assert_non_null(blocks[i] = from_heap(heap, size));
}

/* All blocks, in an order in which no two neighbours come after each other. */
static void send_back(struct thread_cache *heap) {
  enum { STEP = 9973 };
  for (unsigned i = 0, at = 0; i < BLOCKS; i++, at = (at + STEP) % BLOCKS)
    remote_free(heap, map_inbox(blocks[at]), blocks[at]);
  remote_flush(heap);
}

static void start_blocks(void) {
  meter_start();
  measures_blocks = true;
}

static void end_blocks(const char *what, uint64_t least) {
  measures_blocks = false;
  print_message("%s: %llu blocks, at most %llu in one hold\n", what, (unsigned long long)in_all,
                (unsigned long long)most_in_hold);
  assert_true(in_all >= least);
  assert_true(most_in_hold <= BLOCKS_MOST);
}

/* A thread that sleeps has an inbox full of blocks, and somebody calls malloc_trim. */
static void a_trim_sorts_an_inbox_in_pieces(void **state) {
  (void)state;
  struct thread_cache *owner = borrow(), *other = borrow();
  fill(owner, SIZE);
  send_back(other);
  start_blocks();
  release_purge();
  end_blocks("inbox", BLOCKS / 2);
  cache_return(owner);
  cache_return(other);
}

/* Its owner does, when it asks for more: some thousand at a time. Not in the hardened variant. */
static void a_refill_sorts_an_inbox_in_pieces(void **state) {
  (void)state;
  const uint64_t least = HAK_HARDENED ? 0 : 2048;
  struct thread_cache *owner = borrow(), *other = borrow();
  fill(owner, SIZE);
  while (owner->bins[class_for(SIZE)].head != NULL) (void)from_heap(owner, SIZE);
  send_back(other);
  start_blocks();
  void *block = from_heap(owner, SIZE);
  end_blocks("inbox, by a refill", least);
  assert_true(in_all < BLOCKS / 2);
  assert_non_null(block);
  remote_free_now(map_inbox(block), block);
  cache_return(owner);
  cache_return(other);
  release_purge();
}

/* A thread's own bin, as deep as it can be. */
static void a_bin_is_emptied_in_pieces(void **state) {
  (void)state;
  struct thread_cache *heap = borrow();
  fill(heap, 16);
  struct bin *bin = &heap->bins[class_for(16)];
  while (bin->head != NULL) (void)from_heap(heap, 16);
  bin->capacity = BLOCKS;
  bin->room = BLOCKS;
  for (int i = 0; i < BLOCKS; i++) assert_false(bin_push(bin, blocks[i]));
  start_blocks();
  bin_trim(heap, bin, BLOCKS / 4);
  end_blocks("bin that runs over", BLOCKS / 2);
  start_blocks();
  slabs_drain_bins(heap);
  end_blocks("bins that are emptied", BLOCKS / 5);
  bin->capacity = 0;
  bin->room = 0;
  cache_return(heap);
}

static void an_ended_threads_bin_is_emptied_in_pieces(void **state) {
  (void)state;
  struct thread_cache *heap = borrow(), *other = borrow();
  fill(heap, 16);
  struct bin *bin = &heap->bins[class_for(16)];
  while (bin->head != NULL) (void)from_heap(heap, 16);
  bin->capacity = BLOCKS;
  bin->room = BLOCKS;
  for (int i = 0; i < BLOCKS; i++) assert_false(bin_push(bin, blocks[i]));
  cache_return(heap);
  start_blocks();
  release_purge();
  end_blocks("bin of an ended thread, trimmed", BLOCKS / 2);
  cache_return(other);
}

/* --- system calls ------------------------------------------------------------------------------------------------- */

/* What gives memory back takes a quarter of a millisecond for each MiB. */
static bool watches_calls;
static uint64_t calls, calls_in_hold;

static void see(struct lock *lock, void *argument) {
  if (atomic_load(&lock->state) != 0) *(bool *)argument = true;
}

static void see_call(const char *what, const void *address, size_t bytes) {
  bool is_held = false;
  if (!watches_calls) return;
  calls++;
  heap_each_lock(see, &is_held);
  superslab_each_lock(see, &is_held);
  if (!is_held) return;
  calls_in_hold++;
  print_message("%s(%p, %zu) while a lock is held\n", what, address, bytes);
}

bool __real_os_unmap(void *address, size_t bytes);
bool __wrap_os_unmap(void *address, size_t bytes);
bool __wrap_os_unmap(void *address, size_t bytes) {
  /* What lies beside an aligned mapping was never touched: giving it back takes no time. */
  if (((uintptr_t)address | bytes) % UNIT_BYTES == 0) see_call("os_unmap", address, bytes);
  return __real_os_unmap(address, bytes);
}

bool __real_os_decommit(void *address, size_t bytes);
bool __wrap_os_decommit(void *address, size_t bytes);
bool __wrap_os_decommit(void *address, size_t bytes) {
  see_call("os_decommit", address, bytes);
  return __real_os_decommit(address, bytes);
}

bool __real_os_decommit_all(const struct os_range *ranges, size_t count);
bool __wrap_os_decommit_all(const struct os_range *ranges, size_t count);
bool __wrap_os_decommit_all(const struct os_range *ranges, size_t count) {
  if (count > 0) see_call("os_decommit_all", ranges[0].address, ranges[0].bytes);
  return __real_os_decommit_all(ranges, count);
}

bool __real_os_resident_part(const void *address, size_t bytes, size_t *resident);
bool __wrap_os_resident_part(const void *address, size_t bytes, size_t *resident);
bool __wrap_os_resident_part(const void *address, size_t bytes, size_t *resident) {
  see_call("os_resident_part", address, bytes);
  return __real_os_resident_part(address, bytes, resident);
}

static void start_calls(void) {
  calls = calls_in_hold = 0;
  watches_calls = true;
}

static void end_calls(const char *what) {
  watches_calls = false;
  print_message("%s: %llu calls, %llu of them in a hold\n", what, (unsigned long long)calls,
                (unsigned long long)calls_in_hold);
  assert_true(calls > 0);
  assert_int_equal(calls_in_hold, 0);
}

enum { MID = 16 * KIB, MIDS = 4096 }; /* 64 MiB: more than the warm pool takes */

/* The SuperSlabs of a load that ends go back: by the thread's own frees, by a trim, and by the frees of another. */
static void emptied_memory_goes_back_outside_of_holds(void **state) {
  (void)state;
  for (int i = 0; i < MIDS; i++) {
    assert_non_null(blocks[i] = hak_malloc(MID));
    *(char *)blocks[i] = 1;
  }
  start_calls();
  for (int i = 0; i < MIDS; i++) hak_free(blocks[i]);
  end_calls("own frees");
  struct thread_cache *owner = borrow(), *other = borrow();
  for (int i = 0; i < MIDS; i++) {
    assert_non_null(blocks[i] = from_heap(owner, MID));
    *(char *)blocks[i] = 1;
  }
  for (int i = 0; i < MIDS; i++) remote_free(other, map_inbox(blocks[i]), blocks[i]);
  remote_flush(other);
  start_calls();
  release_purge();
  end_calls("trim of an inbox");
  cache_return(owner);
  cache_return(other);
}

/* What the warm pool has had for too long goes when a slab takes a unit out of it. */
static void old_units_go_back_outside_of_holds(void **state) {
  (void)state;
  enum { SMALL_LOAD = 2 * (int)(UNIT_BYTES / MID) };
#if HAK_FAST
  print_message("skipped: options are constants in this build\n");
  skip();
#else
  int32_t decay = option_value(WARM_POOL_DECAY_MS);
  release_purge();
  void *huge = hak_malloc(6 * UNIT_BYTES);
  assert_non_null(huge);
  memset(huge, 1, 6 * UNIT_BYTES);
  hak_free(huge);
  assert_true(unit_warm_bytes() >= 6 * UNIT_BYTES);
  SET_OPTION(WARM_POOL_DECAY_MS, 1);
  usleep(20000);
  struct thread_cache *heap = borrow();
  start_calls();
  for (int i = 0; i < SMALL_LOAD; i++) assert_non_null(blocks[i] = from_heap(heap, MID));
  end_calls("units out of the pool");
  SET_OPTION(WARM_POOL_DECAY_MS, decay);
  for (int i = 0; i < SMALL_LOAD; i++) remote_free_now(map_inbox(blocks[i]), blocks[i]);
  cache_return(heap);
  release_purge();
#endif
}

/* --- statistics --------------------------------------------------------------------------------------------------- */

enum { SPANS = 60, SLABS_SEEN_MOST = 16 * (int)SLICES_PER_UNIT };

static bool measures_statistics;

/* It is asked for once for each slice of a slab. */
size_t __real_os_page_size(void);
size_t __wrap_os_page_size(void);
size_t __wrap_os_page_size(void) {
  if (measures_statistics && atomic_load(&superslab_lock.state) != 0) work(&superslab_lock, 1);
  return __real_os_page_size();
}

static void statistics_look_at_some_superslabs_at_once(void **state) {
  (void)state;
  enum { EACH = (int)(UNIT_BYTES / MID) };
  struct superslab_stats stats;
  struct thread_cache *heap = borrow();
  for (int i = 0; i < SPANS * EACH; i++) assert_non_null(blocks[i] = from_heap(heap, MID));
  meter_start();
  measures_statistics = true;
  superslab_stats_get(&stats, true);
  measures_statistics = false;
  print_message("statistics: %llu slices, at most %llu in one hold\n", (unsigned long long)in_all,
                (unsigned long long)most_in_hold);
  assert_true(in_all >= (SPANS - 1) * SLICES_PER_UNIT);
  assert_true(most_in_hold <= SLABS_SEEN_MOST);
  assert_true(stats.block_bytes_carved - stats.block_bytes_free >= (uint64_t)SPANS * EACH * MID);
  meter_start();
  measures_statistics = true;
  superslab_stats_get(&stats, false);
  measures_statistics = false;
  assert_int_equal(in_all, 0);
  assert_true(stats.slab_bytes >= (uint64_t)SPANS * EACH * MID);
  assert_true(stats.live * UNIT_BYTES >= stats.slab_bytes);
  for (int i = 0; i < SPANS * EACH; i++) remote_free_now(map_inbox(blocks[i]), blocks[i]);
  cache_return(heap);
  release_purge();
}

/* --- turns -------------------------------------------------------------------------------------------------------- */

/* Two holds a turn, or a few dozen where others have the processor; without turns 500. */
enum { TURNS = 200, HOLDS_A_TURN = 40 };
static struct lock contended;
static _Atomic uint32_t holds;
static atomic_bool over;

static void *hold_again_and_again(void *unused) {
  while (!atomic_load(&over)) {
    lock_acquire(&contended);
    for (int i = 0; i < 200000; i++) __asm__ volatile("");
    atomic_fetch_add(&holds, 1);
    lock_release_in_turn(&contended);
  }
  return unused;
}

/* A thread that waits gets the lock though another one takes it again at once. */
static void who_waits_gets_the_lock_in_between(void **state) {
  (void)state;
  pthread_t thread;
  uint32_t waited_for = 0;
  assert_int_equal(pthread_create(&thread, NULL, hold_again_and_again, NULL), 0);
  for (int i = 0; i < TURNS; i++) {
    uint32_t before = atomic_load(&holds);
    while (atomic_load(&holds) == before) os_yield();
    before = atomic_load(&holds);
    lock_acquire(&contended);
    waited_for += atomic_load(&holds) - before;
    lock_release(&contended);
  }
  atomic_store(&over, true);
  pthread_join(thread, NULL);
  print_message("%d turns: waited for %u holds of another\n", TURNS, waited_for);
  assert_true(waited_for < TURNS * HOLDS_A_TURN);
}

static int start(void **state) {
  (void)state;
  hak_free(hak_malloc(1));
  return cache_of_thread() != NULL ? 0 : -1;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_trim_sorts_an_inbox_in_pieces),
      cmocka_unit_test(a_refill_sorts_an_inbox_in_pieces),
      cmocka_unit_test(a_bin_is_emptied_in_pieces),
      cmocka_unit_test(an_ended_threads_bin_is_emptied_in_pieces),
      cmocka_unit_test(emptied_memory_goes_back_outside_of_holds),
      cmocka_unit_test(old_units_go_back_outside_of_holds),
      cmocka_unit_test(statistics_look_at_some_superslabs_at_once),
      cmocka_unit_test(who_waits_gets_the_lock_in_between),
  };
  return cmocka_run_group_tests_name("short lock holds", tests, start, NULL);
}
