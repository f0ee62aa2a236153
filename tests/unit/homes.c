/* homes.c - threads beyond as many as have slabs of their own: guests, whose bins are filled from the slabs of another heap. */
#include "homes_world.h"

#include "heap/purger.h"
#include "release/release.h"

WITHOUT_SAMPLES;

/* --- who is a guest, and whose ------------------------------------------------------------------------------------ */

static bool is_home(const struct arena *heap) {
  for (unsigned i = 0; i < count; i++)
    if (homes[i]->arena == heap) return true;
  return false;
}

static void as_many_as_processors_have_slabs(void **state) {
  (void)state;
  assert_int_equal(homes_count(), count);
  assert_true(count >= os_processors() || count == MOST);
  assert_true(guest_count() >= GUESTS_LEAST);
  for (unsigned i = 0; i < count; i++) assert_false(cache_is_guest(homes[i]));
  for (unsigned i = 0; i < guest_count(); i++) {
    assert_true(cache_is_guest(guests[i]));
    assert_true(is_home(guests[i]->arena));
    assert_int_equal(arena_node(guests[i]->arena), arena_node(guests[i]->arena));
  }
}

static void guests_are_spread_evenly(void **state) {
  (void)state;
  for (unsigned i = 0; i < count; i++) {
    assert_int_equal(homes_users(homes[i]->arena), 1 + GUESTS_EACH);
    assert_true(homes_is_shared(homes[i]->arena));
  }
  /* The next one goes where one has left. */
  struct arena *home = guests[3]->arena;
  cache_return(guests[3]);
  assert_int_equal(homes_users(home), GUESTS_EACH);
  guests[3] = cache_borrow();
  assert_ptr_equal(guests[3]->arena, home);
  assert_int_equal(homes_users(home), 1 + GUESTS_EACH);
}

static void a_parked_home_comes_before_a_guest(void **state) {
  (void)state;
  struct thread_cache *home = homes[count - 1], *guest = guests[5];
  cache_return(guest);
  cache_return(home);
  assert_ptr_equal(cache_borrow(), home);
  assert_false(cache_is_guest(home));
  assert_ptr_equal(cache_borrow(), guest);
  assert_true(cache_is_guest(guest));
}

static void who_holds_a_homes_lock_is_not_its_guest(void **state) {
  (void)state;
  struct arena *before = guests[0]->arena;
  cache_return(guests[0]);
  lock_acquire(&before->lock);
  struct thread_cache *guest = cache_borrow();
  lock_release(&before->lock);
  assert_true(cache_is_guest(guest));
  assert_ptr_not_equal(guest->arena, before);
  cache_return(guest);
  guests[0] = cache_borrow();
  assert_ptr_equal(guests[0]->arena, before);
}

/* --- how much they keep -------------------------------------------------------------------------------------------- */

enum { CAPACITY_MOST = 64 * KIB, FIRST_MOST = 8 * KIB };

static void fill_bins_of(struct thread_cache *heap) {
  enum { BLOCKS_MOST = 8200, OF_A_CLASS = 128 * KIB };
  static void *blocks[BLOCKS_MOST];
  for (unsigned c = 0; c < CLASS_COUNT; c++) {
    size_t size = class_size(c), blocks_of = OF_A_CLASS / size + 1;
    for (size_t i = 0; i < blocks_of; i++) blocks[i] = take(heap, size);
    for (size_t i = 0; i < blocks_of; i++) put(heap, blocks[i]);
    assert_true(heap->bins[c].capacity <= 1 || heap->bins[c].capacity * size <= CAPACITY_MOST);
  }
}

/* The first few small blocks of a class are had beyond the budget. */
static size_t part_of_budget(unsigned users) {
  size_t part = (size_t)option_value(BINS_KB) * KIB / 2 / users;
  return (part > CAPACITY_MOST ? part : CAPACITY_MOST) + CLASS_COUNT * FIRST_MOST;
}

static void threads_of_a_home_share_half_of_what_one_may_keep(void **state) {
  (void)state;
  for (int round = 0; round < 2; round++) {
    if (round == 1) SET_OPTION(BINS_KB, 600);
    struct arena *home = guests[4 + round]->arena;
    fill_bins_of(guests[4 + round]);
    print_message("%zu KiB of %zu\n", guests[4 + round]->bin_budget_used / KIB,
                  part_of_budget(homes_users(home)) / KIB);
    assert_true(guests[4 + round]->bin_budget_used <= part_of_budget(homes_users(home)));
    assert_true(bins_bytes(guests[4 + round]->bins) <= guests[4 + round]->bin_budget_used);
  }
  SET_OPTION(BINS_KB, 8192);
}

/* --- a library that is told of pages ------------------------------------------------------------------------------- */

static void beside(struct os_beside *beside, bool begins) {
  atomic_load (&os_beside_program)(beside, begins);
}

/* It may hold the lock of its home, and others wait for that while they hold their own. */
static void inside_a_librarys_call_a_heap_has_slabs(void **state) {
  (void)state;
  struct os_beside call = {0};
  alarm(WAIT_S);
  struct thread_cache *parked = homes[1];
  cache_return(parked);
  for (unsigned i = 0; i < count; i += 2) lock_acquire(&homes[i]->arena->lock);
  beside(&call, true);
  struct thread_cache *heap = cache_borrow();
  assert_non_null(heap);
  assert_false(cache_is_guest(heap));
  assert_ptr_not_equal(heap, parked); /* which has guests */
  void *block = take(heap, 144);
  assert_ptr_equal(owner_of(block, 144), heap->arena);
  put(heap, block);
  cache_return(heap);
  hak_free(hak_malloc(5000));
  beside(&call, false);
  for (unsigned i = 0; i < count; i += 2) lock_release(&homes[i]->arena->lock);
  alarm(0);
  assert_ptr_equal(cache_of_thread(), homes[0]);
  /* The next thread has it. */
  assert_ptr_equal(cache_borrow(), heap);
  assert_ptr_equal(cache_borrow(), parked);
  cache_return(heap);
}

/* --- fork --------------------------------------------------------------------------------------------------------- */

#define EXPECT(condition) ((condition) ? (void)0 : child_fails(__LINE__, #condition))

static void child_fails(int line, const char *condition) {
  fprintf(stderr, "child, line %d: %s\n", line, condition);
  _exit(2);
}

static pid_t fork_here(void) {
  pid_t child = fork();
  if (child == 0) alarm(WAIT_S);
  return child;
}

static void a_child_counts_users_anew(void **state) {
  (void)state;
  pid_t child = fork_here();
  if (child == 0) {
    for (unsigned i = 0; i < count; i++) EXPECT(homes[i]->arena->users == 1 + GUESTS_EACH);
    for (unsigned i = 0; i < guest_count(); i++) cache_return(guests[i]);
    for (unsigned i = 1; i < count; i++) cache_return(homes[i]);
    EXPECT(homes[0]->arena->users == 1);
    for (unsigned i = 1; i < count; i++) EXPECT(homes[i]->arena->users == 0);
    _exit(0);
  }
  child_ends_well(child);
}

/* A library that is told of pages forks. */
static void a_child_of_such_a_call_counts_its_thread(void **state) {
  (void)state;
  struct os_beside call = {0};
  beside(&call, true);
  struct thread_cache *heap = cache_borrow();
  pid_t child = fork_here();
  if (child == 0) {
    cache_return(heap);
    EXPECT(heap->arena->users == 0);
    beside(&call, false);
    EXPECT(cache_of_thread() == homes[0] && homes[0]->arena->users == 1 + GUESTS_EACH);
    _exit(0);
  }
  cache_return(heap);
  beside(&call, false);
  child_ends_well(child);
}

static atomic_int step;
static struct thread_cache *waiting; /* a guest's, whose thread sleeps */

static void wait_for_step(int wanted) {
  while (atomic_load(&step) < wanted) usleep(100);
}

enum { HELD_SIZE = 176, HELD = 20 };
static void *held[HELD];

static void *hold_blocks(void *unused) {
  for (int i = 0; i < HELD; i++) held[i] = hak_malloc(HELD_SIZE);
  for (int i = 0; i < HELD / 2; i++) hak_free(held[i]);
  waiting = cache_of_thread();
  atomic_store(&step, 1);
  wait_for_step(2);
  for (int i = HELD / 2; i < HELD; i++) hak_free(held[i]);
  return unused;
}

/* Its thread is not in the child, and what lies in its bins goes to the slabs it is of. */
static void guests_of_threads_that_are_not_there_are_drained(void **state) {
  (void)state;
  pthread_t thread;
  atomic_store(&step, 0);
  assert_int_equal(pthread_create(&thread, NULL, hold_blocks, NULL), 0);
  wait_for_step(1);
  assert_true(cache_is_guest(waiting));
  struct arena *home = waiting->arena;
  assert_int_equal(homes_users(home), 2 + GUESTS_EACH);
  pid_t child = fork_here();
  if (child == 0) {
    EXPECT(arena_beside(waiting)->state == ARENA_PARKED && arena_beside(waiting)->in_doubt);
    EXPECT(homes_users(home) == 1 + GUESTS_EACH);
    EXPECT(waiting->bins[class_for(HELD_SIZE)].head != NULL);
    for (int i = HELD / 2; i < HELD; i++) hak_free(held[i]);
    hak_purge();
    EXPECT(bins_bytes(waiting->bins) == 0);
    hak_purge();
    EXPECT(live_of(home, HELD_SIZE) == 0);
    EXPECT(cache_borrow() != NULL);
    _exit(0);
  }
  atomic_store(&step, 2);
  pthread_join(thread, NULL);
  child_ends_well(child);
}

#ifndef __SANITIZE_THREAD__

/* What a handler of another library does behind ours in the parent. */
static void (*when_forking)(void);

static void run_when_forking(void) {
  if (when_forking != NULL) when_forking();
}

static struct arena *lost;

static void *take_lock_away(void *unused) {
  wait_for_step(1);
  lock_acquire(&lost->lock);
  atomic_store(&step, 2);
  wait_for_step(3);
  lock_release(&lost->lock);
  return unused;
}

static void let_the_lock_be_taken(void) {
  atomic_store(&step, 1);
  wait_for_step(2);
}

/* A thread took the lock of a home while another forked: whatever it did there, the child leaves that home alone. */
static void who_lost_its_home_has_slabs(void **state) {
  (void)state;
  enum { SIZE = 240 };
  pthread_t thread;
  struct thread_cache *guest = NULL, *sleeper = NULL;
  lost = homes[1]->arena;
  for (unsigned i = 0; i < guest_count(); i++) {
    if (guests[i]->arena != lost) continue;
    sleeper = guest;
    guest = guests[i];
  }
  void *block = take(guest, SIZE);
  cache_return(sleeper);
  atomic_store(&step, 0);
  assert_int_equal(pthread_create(&thread, NULL, take_lock_away, NULL), 0);
  when_forking = let_the_lock_be_taken;
  pid_t child = fork_here();
  if (child == 0) {
    EXPECT(lost->state == ARENA_LOST);
    for (unsigned i = 0; i < guest_count(); i++) {
      EXPECT(guests[i]->arena != lost || guests[i] == sleeper);
      EXPECT(cache_is_guest(guests[i]) || guests[i]->arena->users == 1);
    }
    EXPECT(!cache_is_guest(guest));
    put(guest, block); /* whose slab is lost */
    for (int i = 0; i < 1000; i++) block = take(guest, SIZE);
    EXPECT(owner_of(block, SIZE) == guest->arena);
    put(guest, block);
    cache_return(guest);
    /* With slabs it waits for the next thread; the one that had none gets another home with the next. */
    EXPECT(cache_borrow() == guest && !cache_is_guest(guest));
    EXPECT(cache_borrow() == sleeper && sleeper->arena != lost);
    _exit(0);
  }
  when_forking = NULL;
  atomic_store(&step, 3);
  pthread_join(thread, NULL);
  child_ends_well(child);
  put(guest, block);
  assert_ptr_equal(cache_borrow(), sleeper);
}

#endif

int main(void) {
#ifndef __SANITIZE_THREAD__
  (void)pthread_atfork(run_when_forking, NULL, NULL);
#endif
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(as_many_as_processors_have_slabs),
      cmocka_unit_test(guests_are_spread_evenly),
      cmocka_unit_test(a_parked_home_comes_before_a_guest),
      cmocka_unit_test(who_holds_a_homes_lock_is_not_its_guest),
      cmocka_unit_test(a_child_counts_users_anew),
      cmocka_unit_test(guests_of_threads_that_are_not_there_are_drained),
#ifndef __SANITIZE_THREAD__
      cmocka_unit_test(who_lost_its_home_has_slabs),
#endif
      cmocka_unit_test(inside_a_librarys_call_a_heap_has_slabs), /* one home more from here on */
      cmocka_unit_test(a_child_of_such_a_call_counts_its_thread),
      cmocka_unit_test(
          threads_of_a_home_share_half_of_what_one_may_keep), /* leaves blocks of all classes */
  };
  return cmocka_run_group_tests_name("homes", tests, start, end);
}
