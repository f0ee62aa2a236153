/* homes_blocks.c - where the blocks of guests come from, and where they go. */
#include "homes_world.h"

#include "heap/purger.h"
#include "release/beat.h"
#include "release/release.h"

WITHOUT_SAMPLES;

static void *use_as_guest(void *of_home) {
  static const size_t sizes[] = {32, 400, 3000};
  hak_free(hak_malloc(1));
  struct thread_cache *heap = cache_of_thread();
  assert_true(cache_is_guest(heap));
  assert_ptr_equal(heap->arena, homes[0]->arena);
  for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    unsigned size_class = class_for(sizes[i]);
    char *block = hak_malloc(sizes[i]);
    assert_ptr_equal(owner_of(block, sizes[i]), heap->arena);
    assert_int_equal(hak_usable_size(block), class_size(size_class));
    assert_ptr_equal(hak_realloc(block, sizes[i] - 1), block);
    hak_free(block);
    assert_ptr_equal(heap->bins[size_class].head, block);
    assert_ptr_equal(hak_malloc(sizes[i]), block);
    hak_free(block);
  }
  /* Larger ones are kept where they are used again and again. */
  void *again = hak_malloc(20 * KIB);
  hak_free(again);
  assert_null(heap->bins[class_for(20 * KIB)].head);
  for (unsigned i = 0; i < 1000; i++) hak_free(hak_malloc(20 * KIB));
  assert_ptr_equal(heap->bins[class_for(20 * KIB)].head, again);
  /* What another thread of the same home has allocated stays here, too. */
  hak_free(of_home);
  assert_ptr_equal(heap->bins[class_for(32)].head, of_home);
  struct arena *empty = arena_beside(heap);
  assert_int_equal(slabs_owned(empty), 0);
  for (unsigned c = 0; c < CLASS_COUNT; c++) assert_int_equal(empty->classes[c].count, 0);
  return NULL;
}

/* The least used home is the first one. */
static void a_guests_blocks_are_its_homes(void **state) {
  (void)state;
  void *block = hak_malloc(32);
  assert_ptr_equal(owner_of(block, 32), homes[0]->arena);
  in_thread(use_as_guest, block);
}

static void blocks_of_another_home_go_there(void **state) {
  (void)state;
  enum { SIZE = 80 };
  struct thread_cache *guest = guests[0], *other = NULL;
  for (unsigned i = 0; i < count; i++)
    if (homes[i]->arena != guest->arena) other = homes[i];
  void *block = take(other, SIZE);
  assert_ptr_equal(owner_of(block, SIZE), other->arena);
  int64_t before = inbox_of(other->arena);
  put(guest, block);
  assert_null(guest->bins[class_for(SIZE)].head);
  remote_flush(guest);
  assert_int_equal(inbox_of(other->arena), before + SIZE);
}

/* However many blocks lie free in a slab that others use as well, a guest's refill is not much larger than any other. */
static void one_refill_does_not_take_all(void **state) {
  (void)state;
  enum { SIZE = 208, BLOCKS = 1000, USUAL = 4096 / SIZE };
  static void *blocks[BLOCKS];
  struct thread_cache *guest = guests[1];
  struct thread_cache *home = cache_beside(guest->arena);
  for (int i = 0; i < BLOCKS; i++) blocks[i] = take(home, SIZE);
  for (int i = 0; i < BLOCKS; i++) put(home, blocks[i]);
  bin_trim(home, &home->bins[class_for(SIZE)], 0);
  put(guest, take(guest, SIZE));
  unsigned held = blocks_in(guest->bins[class_for(SIZE)].head);
  assert_in_range(held, 1, 8 * USUAL);
}

/* Unsorted: the home, or another guest, takes them as they come. */
static void what_runs_over_goes_home_in_batches(void **state) {
  (void)state;
  enum { SIZE = 64, BLOCKS = 3000, BATCH = 128 };
  static void *blocks[BLOCKS];
  unsigned size_class = class_for(SIZE), sent = 0, batches = 0, taken;
  struct thread_cache *guest = guests[2];
  struct arena *home = guest->arena;
  for (int i = 0; i < BLOCKS; i++) {
    blocks[i] = take(guest, SIZE);
    assert_ptr_equal(owner_of(blocks[i], SIZE), home);
  }
  int64_t before = inbox_of(home);
  for (int i = 0; i < BLOCKS; i++) put(guest, blocks[i]);
  unsigned kept = blocks_in(guest->bins[size_class].head);
  assert_int_equal((int64_t)(guest->bins[size_class].capacity) - guest->bins[size_class].room,
                   kept);
  assert_true(inbox_of(home) > before);
  lock_acquire(&home->lock);
  for (void *list; (taken = remote_take_batch(home, size_class, &list)) > 0; batches++) {
    assert_in_range(taken, 1, BATCH);
    sent += taken;
    slabs_put_list(home, size_class, list, true);
  }
  lock_release(&home->lock);
  print_message("%u blocks: %u kept, %u sent in %u batches\n", BLOCKS, kept, sent, batches);
  assert_true(sent + kept >= BLOCKS);
  assert_true(batches > 0 && sent / batches >= 16);
}

/* Who only frees leaves it to the purger. */
static void where_much_waits_the_purger_is_wanted(void **state) {
  (void)state;
  enum { SIZE = 1008, BLOCKS = 65536 };
  static void *blocks[BLOCKS];
  struct thread_cache *guest = guests[2];
  for (int i = 0; i < BLOCKS; i++) blocks[i] = take(guest, SIZE);
  guest->deferred = 0;
  for (int i = 0; i < BLOCKS; i++) put(guest, blocks[i]);
  assert_true((guest->deferred & DEFERRED_PURGE) != 0);
  guest->deferred = 0;
  hak_purge();
  assert_int_equal(inbox_of(guest->arena), 0);
}

/* What a thread has freed waits for others of its home, who do not want it: it is room for what they do want. */
static void who_goes_on_with_another_size_finds_room(void **state) {
  (void)state;
  enum { SIZE = 736, OTHER_SIZE = 2912, BYTES = 64 * MIB };
  static void *blocks[BYTES / SIZE];
  struct thread_cache *guest = guests[2];
  for (int i = 0; i < BYTES / SIZE; i++) blocks[i] = take(guest, SIZE);
  size_t before = slabs_owned(guest->arena);
  assert_true(before >= BYTES);
  for (int i = 0; i < BYTES / SIZE; i++) put(guest, blocks[i]);
  for (int i = 0; i < BYTES / OTHER_SIZE; i++) blocks[i] = take(guest, OTHER_SIZE);
  print_message("%zu MiB of slabs, then %zu\n", before / MIB, slabs_owned(guest->arena) / MIB);
  assert_true(slabs_owned(guest->arena) < before + before / 2);
  for (int i = 0; i < BYTES / OTHER_SIZE; i++) put(guest, blocks[i]);
  hak_purge();
}

static void shuffle(void **blocks, size_t blocks_count) {
  uint64_t random = 1;
  for (size_t i = blocks_count - 1; i > 0; i--) {
    size_t other = (size_t)random_below(&random, i + 1);
    void *block = blocks[i];
    blocks[i] = blocks[other];
    blocks[other] = block;
  }
}

/* Each slab has blocks of both, who free them in any order: nothing is asked for, and nobody purges. */
static void what_many_free_becomes_empty_slabs(void **state) {
  (void)state;
  enum { SIZE = 720, BYTES = 64 * MIB, BLOCKS = BYTES / SIZE };
  static void *blocks[BLOCKS];
  struct thread_cache *first = guests[0], *second = NULL;
  for (unsigned i = 1; i < guest_count(); i++)
    if (guests[i]->arena == first->arena) second = guests[i];
  assert_non_null(second);
  hak_purge();
  size_t others = slabs_owned(first->arena);
  for (int i = 0; i < BLOCKS; i++) blocks[i] = take(i % 2 == 0 ? first : second, SIZE);
  size_t before = slabs_owned(first->arena) - others;
  assert_true(before >= BYTES);
  shuffle(blocks, BLOCKS);
  for (int i = 0; i < BLOCKS; i++) put(i % 2 == 0 ? first : second, blocks[i]);
  size_t after = slabs_owned(first->arena) - others;
  print_message("%zu MiB of slabs, then %zu\n", before / MIB, after / MIB);
  assert_true(after < before / 4);
  hak_purge();
}

/* Where no helper is, what guests freed goes back into slabs at the beats of whoever calls malloc. */
static void beats_empty_the_inbox(void **state) {
  (void)state;
  enum { SIZE = 1504, BLOCKS = 20000, LEFT = 256 * KIB, WAIT_MS = 30000 };
  static void *blocks[BLOCKS];
  unsigned i = 0;
  while (guests[i]->arena != cache_if_any()->arena) i++;
  SET_OPTION(WARM_POOL_DECAY_MS, 20);
  for (int k = 0; k < BLOCKS; k++) blocks[k] = take(guests[i], SIZE);
  for (int k = 0; k < BLOCKS; k++) put(guests[i], blocks[k]);
  assert_true(inbox_of(guests[i]->arena) > LEFT);
  for (int ms = 0; ms < WAIT_MS && inbox_of(guests[i]->arena) > LEFT; ms++) {
    release_request_beats();
    release_beat(0);
    usleep(1000);
  }
  assert_true(inbox_of(guests[i]->arena) <= LEFT);
  hak_purge();
}

static void *of_ended_thread;

static void *use_and_end(void *unused) {
  enum { BLOCKS = 200 };
  static void *blocks[BLOCKS];
  for (size_t size = 96; size <= 9600; size *= 10) {
    for (int i = 0; i < BLOCKS; i++) blocks[i] = hak_malloc(size);
    for (int i = 0; i < BLOCKS; i++) hak_free(blocks[i]);
  }
  of_ended_thread = cache_of_thread();
  assert_true(cache_is_guest(of_ended_thread));
  assert_true(bins_bytes(((struct thread_cache *)of_ended_thread)->bins) > 0);
  return unused;
}

static void a_guest_that_ends_leaves_nothing(void **state) {
  (void)state;
  in_thread(use_and_end, NULL);
  struct thread_cache *guest = of_ended_thread;
  struct arena *home = guest->arena;
  assert_int_equal(arena_beside(guest)->state, ARENA_PARKED);
  assert_int_equal(homes_users(home), 1 + GUESTS_EACH);
  for (unsigned c = 0; c < CLASS_COUNT; c++) {
    assert_null(guest->bins[c].head);
    assert_int_equal(guest->bins[c].capacity, 0);
    assert_int_equal(guest->bins[c].room, 0);
  }
  assert_int_equal(guest->bin_budget_used, 0);
  for (unsigned i = 0; i < OUTGOING_SLOTS; i++) assert_null(guest->outgoing[i].head);
  assert_true(arena_is_bare(arena_beside(guest)));
  hak_purge();
  for (size_t size = 96; size <= 9600; size *= 10) {
    assert_int_equal(live_of(home, size), 0);
    assert_true(home->classes[class_for(size)].count <= 1);
  }
  /* The next thread goes on with it. */
  in_thread(use_and_end, NULL);
  assert_ptr_equal(of_ended_thread, guest);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_guests_blocks_are_its_homes),
      cmocka_unit_test(blocks_of_another_home_go_there),
      cmocka_unit_test(one_refill_does_not_take_all),
      cmocka_unit_test(what_runs_over_goes_home_in_batches),
      cmocka_unit_test(where_much_waits_the_purger_is_wanted),
      cmocka_unit_test(who_goes_on_with_another_size_finds_room),
      cmocka_unit_test(what_many_free_becomes_empty_slabs),
      cmocka_unit_test(beats_empty_the_inbox),
      cmocka_unit_test(a_guest_that_ends_leaves_nothing),
  };
  return cmocka_run_group_tests_name("blocks of homes", tests, start, end);
}
