/* remote_batches.c - blocks that others free: batches as they were sent, whoever takes them. */
#include "two_heaps.h"

#include <pthread.h>

#include "front/fast.h"
#include "heap/adopt.h"
#include "heap/homes.h"
#include "heap/refill.h"
#include "heap/remote.h"
#include "heap/slabs.h"
#include "heap/slots.h"
#include "release/release.h"

WITHOUT_SAMPLES;

/* Smallest to largest: a batch has 128 blocks, or 16 KiB, or one block. */
static const size_t sizes[] = {16, 32, 64, 256, 4 * KIB, 64 * KIB};
enum { SIZE_COUNT = 6, BLOCKS_MOST = 400 };

static unsigned batch_of(size_t size) {
  size_t blocks = 16 * KIB / size;
  return blocks > 128 ? 128 : blocks == 0 ? 1 : (unsigned)blocks;
}

static void *blocks[BLOCKS_MOST];

static void allocate(size_t count, size_t size) {
  for (size_t i = 0; i < count; i++) {
    blocks[i] = hak_malloc(size);
    assert_non_null(blocks[i]);
    assert_ptr_equal(arena_of_inbox(map_inbox(blocks[i]), class_for(size)), owner->arena);
  }
}

static void send_now(void *block) {
  guard_freed(block, map_inbox(block));
  remote_free_now(map_inbox(block), block);
}

/* The program has them again, as far as the rest of the library knows. */
static void free_all(size_t count) {
  for (size_t i = 0; i < count; i++) hak_free(blocks[i]);
}

/* The next batch of a heap is blocks[last], blocks[last - 1], ..., `count` in all. */
static void takes(struct thread_cache *heap, size_t size, size_t last, unsigned count) {
  void *list = NULL;
  int64_t before = inbox_bytes(heap->arena);
  lock_acquire(&heap->arena->lock);
  assert_int_equal(remote_take_batch(heap->arena, class_for(size), &list), count);
  lock_release(&heap->arena->lock);
  assert_int_equal(before - inbox_bytes(heap->arena), count * size);
  for (unsigned i = 0; i < count; i++) {
    assert_ptr_equal(list, blocks[last - i]);
    list = link_next(list);
    guard_allocated(blocks[last - i], class_for(size));
  }
  assert_null(list);
}

static void takes_nothing(struct thread_cache *heap, size_t size) {
  void *list = NULL;
  lock_acquire(&heap->arena->lock);
  assert_int_equal(remote_take_batch(heap->arena, class_for(size), &list), 0);
  lock_release(&heap->arena->lock);
  assert_null(list);
  assert_int_equal(inbox_bytes(heap->arena), 0);
}

static void batches_come_as_they_were_sent(void **state) {
  (void)state;
  for (int s = 0; s < SIZE_COUNT; s++) {
    size_t size = sizes[s];
    unsigned batch = batch_of(size);
    size_t count = 2 * batch + (batch + 1) / 2; /* the third is not full, where it can be */
    allocate(count, size);
    for (size_t i = 0; i < count; i++) {
      assert_int_equal(inbox_bytes(owner->arena), i / batch * batch * size);
      send(other, blocks[i]);
    }
    remote_flush(other);
    assert_int_equal(inbox_bytes(owner->arena), count * size);
    takes(owner, size, count - 1, (unsigned)(count - 2 * batch));
    takes(owner, size, 2 * batch - 1, batch);
    /* What is sent now waits until the drained list is used up. */
    send_now(blocks[count - 1]);
    takes(owner, size, batch - 1, batch);
    takes(owner, size, count - 1, 1);
    takes_nothing(owner, size);
    remote_flush(other);
    takes_nothing(owner, size);
    free_all(count);
  }
}

static bool steals(size_t size) {
  lock_acquire(&other->arena->lock);
  lock_acquire(&owner->arena->lock);
  bool stolen = remote_steal(other->arena, owner->arena, class_for(size));
  lock_release(&owner->arena->lock);
  lock_release(&other->arena->lock);
  return stolen;
}

static void send_one_by_one(size_t from, size_t to) {
  for (size_t i = from; i < to; i++) send_now(blocks[i]);
}

/* What is in the drained list; what was sent since stays with the owner. */
static void few_batches_are_stolen_as_well(void **state) {
  (void)state;
  enum { COUNT = 3 };
  const size_t size = 16;
  allocate(COUNT, size);
  assert_false(steals(size));
  send_one_by_one(0, COUNT - 1);
  takes(owner, size, COUNT - 2, 1);
  send_one_by_one(COUNT - 1, COUNT);
  assert_true(steals(size));
  assert_int_equal(inbox_bytes(other->arena), size);
  takes(other, size, 0, 1);
  takes_nothing(other, size);
  takes(owner, size, COUNT - 1, 1);
  takes_nothing(owner, size);
  free_all(COUNT);
}

static void a_steal_takes_the_front_of_a_drained_list(void **state) {
  (void)state;
  enum { LEFT = 6 };
  for (int s = 0; s < 2; s++) {
    size_t size = sizes[s], left = s == 0 ? LEFT : 0, count = STEAL_BATCHES + left;
    allocate(count + 1, size);
    send_one_by_one(0, count);
    assert_true(steals(size));
    assert_int_equal(inbox_bytes(other->arena), STEAL_BATCHES * size);
    assert_int_equal(inbox_bytes(owner->arena), left * size);
    send_one_by_one(count, count + 1);
    for (size_t i = 0; i < STEAL_BATCHES; i++) takes(other, size, count - 1 - i, 1);
    takes_nothing(other, size);
    for (size_t i = left; i > 0; i--) takes(owner, size, i - 1, 1);
    takes(owner, size, count, 1);
    takes_nothing(owner, size);
    free_all(count + 1);
  }
}

/* A stolen block goes back to the slab it is of, through its owner. */
static void stolen_blocks_find_home(void **state) {
  (void)state;
  const size_t size = 32;
  allocate(STEAL_BATCHES, size);
  send_one_by_one(0, STEAL_BATCHES);
  assert_true(steals(size));
  for (size_t i = STEAL_BATCHES; i > 0; i--) {
    takes(other, size, i - 1, 1);
    guard_freed(blocks[i - 1], map_inbox(blocks[i - 1]));
    link_set(blocks[i - 1], NULL);
    lock_acquire(&other->arena->lock);
    slabs_put_list(other->arena, class_for(size), blocks[i - 1], true);
    lock_release(&other->arena->lock);
  }
  assert_int_equal(inbox_bytes(owner->arena), STEAL_BATCHES * size);
  for (size_t i = 0; i < STEAL_BATCHES; i++) takes(owner, size, i, 1);
  takes_nothing(owner, size);
  free_all(STEAL_BATCHES);
}

/* Blocks that another heap put back come in the batches that a free would have made of them, not one by one. */
static void misrouted_blocks_of_one_slice_come_in_batches(void **state) {
  (void)state;
  enum { COUNT = 300 };
  const size_t size = 64;
  unsigned batch = batch_of(size), most = 0, taken = 0, of_slice = 0;
  allocate(COUNT, size);
  void *list = NULL;
  for (size_t i = 0; i < COUNT; i++) {
    guard_freed(blocks[i], map_inbox(blocks[i]));
    link_set(blocks[i], list);
    list = blocks[i];
    bool same = i > 0 && ((uintptr_t)blocks[i] ^ (uintptr_t)blocks[i - 1]) >> SLICE_SHIFT == 0;
    if (!same || of_slice == batch) {
      most++;
      of_slice = 0;
    }
    of_slice++;
  }
  lock_acquire(&other->arena->lock);
  slabs_put_list(other->arena, class_for(size), list, true);
  lock_release(&other->arena->lock);
  assert_int_equal(inbox_bytes(owner->arena), COUNT * size);
  lock_acquire(&owner->arena->lock);
  for (unsigned i = 0; i < most && taken < COUNT; i++) {
    unsigned count = remote_take_batch(owner->arena, class_for(size), &list);
    assert_in_range(count, 1, batch);
    taken += count;
  }
  lock_release(&owner->arena->lock);
  assert_int_equal(taken, COUNT);
  takes_nothing(owner, size);
  for (int i = 0; i < COUNT; i++) guard_allocated(blocks[i], class_for(size));
  free_all(COUNT);
}

/* In its child what others send later is lost; nothing else is. */
static void a_fork_takes_all_that_was_sent(void **state) {
  (void)state;
  const size_t size = 96;
  unsigned size_class = class_for(size);
  allocate(3, size);
  send_one_by_one(0, 2);
  takes(owner, size, 1, 1);
  send_one_by_one(2, 3);
  lock_acquire(&owner->arena->lock);
  remote_settle(owner->arena);
  lock_release(&owner->arena->lock);
  assert_null(atomic_load(&owner->arena->inboxes[size_class].first));
  takes(owner, size, 2, 1);
  takes(owner, size, 0, 1);
  takes_nothing(owner, size);
  free_all(3);
}

/* --- many threads ----------------------------------------------------------------------------- */

enum { THREADS = 200, THREAD_CLASSES = 3, ROUNDS = 256 };
static const size_t thread_sizes[THREAD_CLASSES] = {16, 48, 80};

/* What lies in an inbox. */
struct sent {
  unsigned blocks, batches;
};

static struct sent sent_to(struct arena *arena, size_t size) {
  struct sent sent = {0, 0};
  void *list;
  unsigned count;
  lock_acquire(&arena->lock);
  while ((count = remote_take_batch(arena, class_for(size), &list)) > 0) {
    sent.blocks += count;
    sent.batches++;
    slabs_put_list(arena, class_for(size), list, true);
  }
  lock_release(&arena->lock);
  return sent;
}

/* Which pair of slots an inbox wants. */
static unsigned pair_of(struct thread_cache *cache, struct arena *arena, size_t size) {
  struct outgoing *slot = remote_slot(cache, &arena->inboxes[class_for(size)]);
  return (unsigned)(slot - cache->outgoing) % (OUTGOING_SLOTS / 2);
}

/* A thread frees for 200 others, a block of each class at a time. These have a few homes, each with a place for each class: a batch is full
 * at 8 KiB, which are 102 to 128 blocks. Where three inboxes want two places, by where the homes lie, they cut each other's short. */
static void batches_for_many_threads_are_long(void **state) {
  (void)state;
  static struct thread_cache *threads[THREADS];
  static void
      *of_threads[ROUNDS][THREADS][THREAD_CLASSES]; /* first all: nobody takes back what was sent */
  unsigned count = 0;
  for (int i = 0; i < THREADS; i++) assert_non_null(threads[i] = cache_borrow());
  for (int round = 0; round < ROUNDS; round++)
    for (int i = 0; i < THREADS; i++)
      for (int c = 0; c < THREAD_CLASSES; c++) {
        unsigned size_class = class_for(thread_sizes[c]);
        void *block = bin_pop(&threads[i]->bins[size_class]);
        if (block == NULL) block = refill(threads[i], size_class, false, NULL);
        assert_non_null(block);
        of_threads[round][i][c] = block;
        count++;
      }
  for (int round = 0; round < ROUNDS; round++)
    for (int i = 0; i < THREADS; i++)
      for (int c = 0; c < THREAD_CLASSES; c++)
        remote_free(other, map_inbox(of_threads[round][i][c]), of_threads[round][i][c]);
  remote_flush(other);
  static struct sent sent[OUTGOING_SLOTS / 2];
  static unsigned inboxes[OUTGOING_SLOTS / 2];
  for (struct arena *heap = arena_first(); heap != NULL; heap = heap->next)
    for (int c = 0; c < THREAD_CLASSES; c++) {
      struct sent here = sent_to(heap, thread_sizes[c]);
      unsigned pair = pair_of(other, heap, thread_sizes[c]);
      sent[pair].blocks += here.blocks;
      sent[pair].batches += here.batches;
      inboxes[pair] += here.blocks > 0;
    }
  struct sent good = {0, 0};
  for (unsigned pair = 0; pair < OUTGOING_SLOTS / 2; pair++) {
    if (inboxes[pair] > 2) continue;
    good.blocks += sent[pair].blocks;
    good.batches += sent[pair].batches;
  }
  print_message("of %u blocks %u in %u batches, where two inboxes at most want two places\n", count,
                good.blocks, good.batches);
  assert_true(good.blocks >= count / 4);
  assert_true(good.blocks / good.batches >= 40);
  for (int i = 0; i < THREADS; i++) cache_return(threads[i]);
}

/* --- what waits ------------------------------------------------------------------------------- */

enum { LONE = 48, USUAL = 64 };

/* How long a batch is depends on whether the thread shares its home. All blocks first: what was sent is not taken back. */
static void send_full_batches(unsigned count, size_t size) {
  for (; count > 0; count--) {
    for (size_t i = 0; i < batch_of(size); i++) blocks[i] = block_of_own_class(size);
    const struct outgoing *slot = remote_slot(other, map_inbox(blocks[0]));
    size_t i = 0;
    do send(other, blocks[i++]);
    while (slot->head != NULL);
    for (; i < batch_of(size); i++) hak_free(blocks[i]);
  }
}

/* A block of a size that is freed now and then; the slot that it waits in is looked at next. */
static void send_lone(void) {
  void *block = block_of_own_class(LONE);
  other->next_waiting = (uint32_t)(remote_slot(other, map_inbox(block)) - other->outgoing);
  send(other, block);
}

static void lone_blocks_wait_where_none_is(void **state) {
  (void)state;
  send_lone();
  send_full_batches(2 * OUTGOING_SLOTS, USUAL);
  assert_int_equal(sent_to(owner->arena, LONE).batches, 0);
  remote_flush(other);
  assert_int_equal(sent_to(owner->arena, LONE).batches, 1);
}

/* Each full batch has one slot looked at: OUTGOING_SLOTS of them look at each once. */
static void lone_blocks_go_with_full_batches_where_a_home_is_shared(void **state) {
  (void)state;
  static struct thread_cache *more[THREADS];
  unsigned count = 0;
  while (count < THREADS && !homes_is_shared(other->arena))
    assert_non_null(more[count++] = cache_borrow());
  assert_true(homes_is_shared(other->arena));
  send_lone();
  send_full_batches(OUTGOING_SLOTS, USUAL);
  assert_int_equal(sent_to(owner->arena, LONE).batches, 0); /* seen once */
  send_full_batches(1, USUAL);
  assert_int_equal(sent_to(owner->arena, LONE).batches, 1);
  /* What became full meanwhile does not count for what comes after it. */
  send_lone();
  send_full_batches(1, USUAL);
  const struct outgoing *slot = remote_slot(other, &owner->arena->inboxes[class_for(LONE)]);
  while (slot->head != NULL) send(other, block_of_own_class(LONE));
  assert_int_equal(sent_to(owner->arena, LONE).batches, 1);
  send_lone();
  send_full_batches(OUTGOING_SLOTS, USUAL);
  assert_int_equal(sent_to(owner->arena, LONE).batches, 0);
  send_full_batches(1, USUAL);
  assert_int_equal(sent_to(owner->arena, LONE).batches, 1);
  while (count > 0) cache_return(more[--count]);
}

/* --- whose thread sleeps ------------------------------------------------------------------------ */

static bool adopts(struct thread_cache *heap, size_t size) {
  lock_acquire(&heap->arena->lock);
  bool adopted = adopt_slabs(heap->arena, class_for(size), false);
  lock_release(&heap->arena->lock);
  return adopted;
}

/* The owner looks away while its inbox grows: from the mark on, another heap takes what is there, and the slabs that it is of. */
static void who_sleeps_is_taken_from(void **state) {
  (void)state;
  const size_t size = KIB;
  const size_t count = (size_t)BACKLOG_BYTES / size, more = 3 * (SLICE_BYTES / KIB);
  size_t moved = 0;
  struct thread_cache *thief = cache_borrow();
  assert_non_null(thief);
  while (adopts(thief, size)) continue; /* what earlier tests left */
  allocate(more, size);
  for (size_t i = 0; i < count; i++) {
    assert_false(adopts(thief, size));
    send(other, blocks[i]);
  }
  remote_flush(other);
  assert_true(inbox_bytes(owner->arena) >= BACKLOG_BYTES);
  assert_true(adopts(thief, size));
  assert_int_equal(inbox_bytes(owner->arena), 0);
  assert_int_equal(inbox_bytes(thief->arena), count * size);
  for (size_t i = 0; i < more; i++)
    moved += arena_of_inbox(map_inbox(blocks[i]), class_for(size)) == thief->arena;
  assert_true(moved >= SLICE_BYTES / KIB);
  assert_false(adopts(thief, size));
  for (size_t left = count, batch = batch_of(size); left > 0; left -= batch)
    takes(thief, size, left - 1, (unsigned)batch);
  free_all(more);
  cache_return(thief);
}

static struct thread_cache *searcher;
static const struct slab *watched;
static bool searched, found_meanwhile;

bool __real_os_decommit_all(const struct os_range *ranges, size_t count);
bool __wrap_os_decommit_all(const struct os_range *ranges, size_t count);
bool __wrap_os_decommit_all(const struct os_range *ranges, size_t count) {
  if (watched != NULL && watched->purging) {
    searched = true;
    found_meanwhile |= adopts(searcher, slab_block_size(watched));
  }
  return __real_os_decommit_all(ranges, count);
}

/* A search while the purger has the free blocks of a parked heap finds nothing there; the next one does. */
static void what_the_purger_has_is_found_after_it(void **state) {
  (void)state;
  const size_t size = 2 * KIB;
  searcher = cache_borrow();
  struct thread_cache *sleeper = cache_borrow();
  assert_true(searcher != NULL && sleeper != NULL);
  while (adopts(searcher, size)) continue; /* what earlier tests left */
  void *block = refill(sleeper, class_for(size), false, NULL);
  assert_non_null(block);
  guard_allocated(block, class_for(size));
  assert_ptr_equal(arena_of_inbox(map_inbox(block), class_for(size)), sleeper->arena);
  cache_return(sleeper);
  watched = slab_head(map_slab(block));
  release_scan(0, NULL);
  watched = NULL;
  assert_true(searched);
  assert_false(found_meanwhile);
  assert_true(adopts(searcher, size));
  assert_ptr_equal(arena_of_inbox(map_inbox(block), class_for(size)), searcher->arena);
  hak_free(block);
  cache_return(searcher);
}

/* A handler that frees may have interrupted its thread at the slots. */
static void at_its_slots_a_thread_sends_at_once(void **state) {
  (void)state;
  enum { SIZE = 64, COUNT = 4 };
  allocate(COUNT, SIZE);
  send(other, blocks[1]);
  assert_int_equal(inbox_bytes(owner->arena), 0);
  assert_true(slots_enter(other));
  send(other, blocks[0]);
  assert_int_equal(inbox_bytes(owner->arena), SIZE);
  remote_flush(other); /* leaves the slots as they are */
  assert_int_equal(inbox_bytes(owner->arena), SIZE);
  slots_leave(other);
  send(other, blocks[2]);
  assert_int_equal(inbox_bytes(owner->arena), SIZE);
  remote_flush(other);
  assert_int_equal(inbox_bytes(owner->arena), 3 * SIZE);
  takes(owner, SIZE, 2, 2);
  takes(owner, SIZE, 0, 1);
  free_all(COUNT);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(batches_come_as_they_were_sent),
      cmocka_unit_test(at_its_slots_a_thread_sends_at_once),
      cmocka_unit_test(few_batches_are_stolen_as_well),
      cmocka_unit_test(a_steal_takes_the_front_of_a_drained_list),
      cmocka_unit_test(stolen_blocks_find_home),
      cmocka_unit_test(misrouted_blocks_of_one_slice_come_in_batches),
      cmocka_unit_test(who_sleeps_is_taken_from),
      cmocka_unit_test(what_the_purger_has_is_found_after_it),
      cmocka_unit_test(a_fork_takes_all_that_was_sent),
      cmocka_unit_test(lone_blocks_wait_where_none_is),
      /* These leave parked heaps behind. */
      cmocka_unit_test(lone_blocks_go_with_full_batches_where_a_home_is_shared),
      cmocka_unit_test(batches_for_many_threads_are_long),
  };
  return cmocka_run_group_tests_name("remote batches", tests, start, end);
}
