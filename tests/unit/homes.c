/* homes.c - threads beyond as many as have slabs of their own: guests, whose bins are filled from the slabs of another heap.
 *
 * Borrowed heaps stand for those of threads: they are taken and parked by the same functions. Where a test needs the fast paths it
 * starts a thread. Each test has a size of its own, so that no bin and no slab has anything of it before. */
#include "child.h"

#include <pthread.h>
#include <stdatomic.h>

#include "front/front.h"
#include "heap/bins.h"
#include "heap/engine.h"
#include "heap/homes.h"
#include "heap/refill.h"
#include "heap/remote.h"
#include "heap/slabs.h"
#include "release/beat.h"
#include "release/release.h"

WITHOUT_SAMPLES;

enum { MOST = 256, GUESTS_EACH = 2, GUESTS_LEAST = 8, WAIT_S = 60 };

static unsigned count;           /* of homes */
static struct heap *homes[MOST]; /* the first is this thread's */
static struct heap *guests[GUESTS_EACH * MOST];

static unsigned guest_count(void) { return GUESTS_EACH * count; }

static struct heap *owner_of(const void *block, size_t size) {
  return heap_of_bin(map_bin(block), class_for(size));
}

static int64_t inbox_of(struct heap *heap) { return atomic_load(&heap->inbox_bytes); }

/* As malloc and free do it for a thread of this heap. */
static void *take(struct heap *heap, size_t size) {
  unsigned size_class = class_for(size);
  void *block = bin_pop(&heap->bins[size_class]);
  if (block == NULL) block = refill(heap, size_class, false, NULL);
  assert_non_null(block);
  guard_allocated(block, size_class);
  return block;
}

static void put(struct heap *heap, void *block) {
  struct bin *bin = map_bin(block);
  guard_freed(block, bin);
  size_t place = heap_place(heap, bin);
  if (!heap_keeps(place)) remote_free(heap, bin, block);
  else if (bin_push(heap_bin_at(heap, place), block)) bin_overflow(heap, heap_bin_at(heap, place));
}

static unsigned blocks_in(void *list) {
  unsigned blocks = 0;
  for (; list != NULL; list = link_next(list)) blocks++;
  return blocks;
}

/* Blocks of the class that are out of its slabs, where no page was given back. */
static uint64_t live_of(struct heap *heap, size_t size) {
  uint64_t live = 0;
  for (struct slab *slab = heap->classes[class_for(size)].first; slab != NULL; slab = slab->next)
    live += slab_carved(slab) - slab_free_count(slab);
  return live;
}

static void in_thread(void *(*body)(void *), void *argument) {
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, body, argument), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
}

/* --- who is a guest, and whose ------------------------------------------------------------------------------------ */

static int start(void **state) {
  (void)state;
  hak_free(hak_malloc(1));
  homes[count++] = heap_of_thread();
  while (count < MOST && homes_may_be_more(0))
    if ((homes[count++] = heap_borrow()) == NULL) return -1;
  for (unsigned i = 0; i < guest_count(); i++)
    if ((guests[i] = heap_borrow()) == NULL) return -1;
  return homes[0] != NULL ? 0 : -1;
}

static int end(void **state) {
  (void)state;
  for (unsigned i = 0; i < guest_count(); i++) heap_return(guests[i]);
  for (unsigned i = 1; i < count; i++) heap_return(homes[i]);
  return 0;
}

static bool is_home(const struct heap *heap) {
  for (unsigned i = 0; i < count; i++)
    if (homes[i] == heap) return true;
  return false;
}

static void as_many_as_processors_have_slabs(void **state) {
  (void)state;
  assert_int_equal(homes_count(), count);
  assert_true(count >= os_processors() || count == MOST);
  assert_true(guest_count() >= GUESTS_LEAST);
  for (unsigned i = 0; i < count; i++) assert_false(heap_is_guest(homes[i]));
  for (unsigned i = 0; i < guest_count(); i++) {
    assert_true(heap_is_guest(guests[i]));
    assert_true(is_home(guests[i]->home));
    assert_int_equal(heap_node(guests[i]->home), heap_node(guests[i]));
  }
}

static void guests_are_spread_evenly(void **state) {
  (void)state;
  for (unsigned i = 0; i < count; i++) {
    assert_int_equal(homes_users(homes[i]), 1 + GUESTS_EACH);
    assert_true(homes_is_shared(homes[i]));
  }
  /* The next one goes where one has left. */
  struct heap *home = guests[3]->home;
  heap_return(guests[3]);
  assert_int_equal(homes_users(home), GUESTS_EACH);
  guests[3] = heap_borrow();
  assert_ptr_equal(guests[3]->home, home);
  assert_int_equal(homes_users(home), 1 + GUESTS_EACH);
}

static void a_parked_home_comes_before_a_guest(void **state) {
  (void)state;
  struct heap *home = homes[count - 1], *guest = guests[5];
  heap_return(guest);
  heap_return(home);
  assert_ptr_equal(heap_borrow(), home);
  assert_false(heap_is_guest(home));
  assert_ptr_equal(heap_borrow(), guest);
  assert_true(heap_is_guest(guest));
}

static void who_holds_a_homes_lock_is_not_its_guest(void **state) {
  (void)state;
  struct heap *before = guests[0]->home;
  heap_return(guests[0]);
  lock_acquire(&before->lock);
  struct heap *guest = heap_borrow();
  lock_release(&before->lock);
  assert_true(heap_is_guest(guest));
  assert_ptr_not_equal(guest->home, before);
  heap_return(guest);
  guests[0] = heap_borrow();
  assert_ptr_equal(guests[0]->home, before);
}

/* --- blocks ----------------------------------------------------------------------------------------------------- */

static void *use_as_guest(void *of_home) {
  static const size_t sizes[] = {32, 400, 3000, 20 * KIB};
  hak_free(hak_malloc(1));
  struct heap *heap = heap_of_thread();
  assert_true(heap_is_guest(heap));
  assert_ptr_equal(heap->home, homes[0]);
  for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    unsigned size_class = class_for(sizes[i]);
    char *block = hak_malloc(sizes[i]);
    assert_ptr_equal(owner_of(block, sizes[i]), heap->home);
    assert_int_equal(hak_usable_size(block), class_size(size_class));
    assert_ptr_equal(hak_realloc(block, sizes[i] - 1), block);
    hak_free(block);
    assert_ptr_equal(heap->bins[size_class].head, block);
    assert_ptr_equal(hak_malloc(sizes[i]), block);
    hak_free(block);
  }
  /* What another thread of the same home has allocated stays here, too. */
  hak_free(of_home);
  assert_ptr_equal(heap->bins[class_for(32)].head, of_home);
  assert_int_equal(slabs_owned(heap), 0);
  for (unsigned c = 0; c < CLASS_COUNT; c++) assert_int_equal(heap->classes[c].count, 0);
  return NULL;
}

/* The least used home is the first one. */
static void a_guests_blocks_are_its_homes(void **state) {
  (void)state;
  void *block = hak_malloc(32);
  assert_ptr_equal(owner_of(block, 32), homes[0]);
  in_thread(use_as_guest, block);
}

static void blocks_of_another_home_go_there(void **state) {
  (void)state;
  enum { SIZE = 80 };
  struct heap *guest = guests[0], *other = NULL;
  for (unsigned i = 0; i < count; i++)
    if (homes[i] != guest->home) other = homes[i];
  void *block = take(other, SIZE);
  assert_ptr_equal(owner_of(block, SIZE), other);
  int64_t before = inbox_of(other);
  put(guest, block);
  assert_null(guest->bins[class_for(SIZE)].head);
  remote_flush(guest);
  assert_int_equal(inbox_of(other), before + SIZE);
}

/* However many blocks lie free in a slab that others use as well, a guest's refill is not much larger than any other. */
static void one_refill_does_not_take_all(void **state) {
  (void)state;
  enum { SIZE = 208, BLOCKS = 1000, USUAL = 4096 / SIZE };
  static void *blocks[BLOCKS];
  struct heap *guest = guests[1], *home = guest->home;
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
  struct heap *guest = guests[2], *home = guest->home;
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

/* Who only frees leaves it to the engine. */
static void where_much_waits_the_engine_is_wanted(void **state) {
  (void)state;
  enum { SIZE = 1008, BLOCKS = 65536 };
  static void *blocks[BLOCKS];
  struct heap *guest = guests[2];
  for (int i = 0; i < BLOCKS; i++) blocks[i] = take(guest, SIZE);
  guest->wants = 0;
  for (int i = 0; i < BLOCKS; i++) put(guest, blocks[i]);
  assert_true((guest->wants & WANTS_ENGINE) != 0);
  guest->wants = 0;
  hak_purge();
  assert_int_equal(inbox_of(guest->home), 0);
}

/* What a thread has freed waits for others of its home, who do not want it: it is room for what they do want. */
static void who_goes_on_with_another_size_finds_room(void **state) {
  (void)state;
  enum { SIZE = 736, OTHER_SIZE = 2912, BYTES = 64 * MIB };
  static void *blocks[BYTES / SIZE];
  struct heap *guest = guests[2];
  for (int i = 0; i < BYTES / SIZE; i++) blocks[i] = take(guest, SIZE);
  size_t before = slabs_owned(guest->home);
  assert_true(before >= BYTES);
  for (int i = 0; i < BYTES / SIZE; i++) put(guest, blocks[i]);
  for (int i = 0; i < BYTES / OTHER_SIZE; i++) blocks[i] = take(guest, OTHER_SIZE);
  print_message("%zu MiB of slabs, then %zu\n", before / MIB, slabs_owned(guest->home) / MIB);
  assert_true(slabs_owned(guest->home) < before + before / 2);
  for (int i = 0; i < BYTES / OTHER_SIZE; i++) put(guest, blocks[i]);
  hak_purge();
}

static void shuffle(void **blocks, size_t blocks_count) {
  uint64_t random = 1;
  for (size_t i = blocks_count - 1; i > 0; i--) {
    random = random * UINT64_C(6364136223846793005) + 1;
    size_t other = (size_t)(random >> 33) % (i + 1);
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
  struct heap *first = guests[0], *second = NULL;
  for (unsigned i = 1; i < guest_count(); i++)
    if (guests[i]->home == first->home) second = guests[i];
  assert_non_null(second);
  hak_purge();
  size_t others = slabs_owned(first->home);
  for (int i = 0; i < BLOCKS; i++) blocks[i] = take(i % 2 == 0 ? first : second, SIZE);
  size_t before = slabs_owned(first->home) - others;
  assert_true(before >= BYTES);
  shuffle(blocks, BLOCKS);
  for (int i = 0; i < BLOCKS; i++) put(i % 2 == 0 ? first : second, blocks[i]);
  size_t after = slabs_owned(first->home) - others;
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
  while (guests[i]->home != heap_if_any()) i++;
  SET_OPTION(WARM_POOL_DECAY_MS, 20);
  for (int k = 0; k < BLOCKS; k++) blocks[k] = take(guests[i], SIZE);
  for (int k = 0; k < BLOCKS; k++) put(guests[i], blocks[k]);
  assert_true(inbox_of(guests[i]->home) > LEFT);
  for (int ms = 0; ms < WAIT_MS && inbox_of(guests[i]->home) > LEFT; ms++) {
    release_ask_for_beats();
    release_beat(0);
    usleep(1000);
  }
  assert_true(inbox_of(guests[i]->home) <= LEFT);
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
  of_ended_thread = heap_of_thread();
  assert_true(heap_is_guest(of_ended_thread));
  assert_true(bins_bytes(of_ended_thread) > 0);
  return unused;
}

static void a_guest_that_ends_leaves_nothing(void **state) {
  (void)state;
  in_thread(use_and_end, NULL);
  struct heap *guest = of_ended_thread, *home = guest->home;
  assert_int_equal(guest->state, HEAP_PARKED);
  assert_int_equal(homes_users(home), 1 + GUESTS_EACH);
  for (unsigned c = 0; c < CLASS_COUNT; c++) {
    assert_null(guest->bins[c].head);
    assert_int_equal(guest->bins[c].capacity, 0);
    assert_int_equal(guest->bins[c].room, 0);
  }
  assert_int_equal(guest->bin_budget_used, 0);
  for (unsigned i = 0; i < OUTGOING_SLOTS; i++) assert_null(guest->outgoing[i].head);
  assert_true(heap_is_bare(guest));
  hak_purge();
  for (size_t size = 96; size <= 9600; size *= 10) {
    assert_int_equal(live_of(home, size), 0);
    assert_true(home->classes[class_for(size)].count <= 1);
  }
  /* The next thread goes on with it. */
  in_thread(use_and_end, NULL);
  assert_ptr_equal(of_ended_thread, guest);
}

/* --- how much they keep -------------------------------------------------------------------------------------------- */

enum { CAPACITY_MOST = 64 * KIB, FIRST_MOST = 8 * KIB };

static void fill_bins_of(struct heap *heap) {
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
    struct heap *home = guests[4 + round]->home;
    fill_bins_of(guests[4 + round]);
    print_message("%zu KiB of %zu\n", guests[4 + round]->bin_budget_used / KIB,
                  part_of_budget(homes_users(home)) / KIB);
    assert_true(guests[4 + round]->bin_budget_used <= part_of_budget(homes_users(home)));
    assert_true(bins_bytes(guests[4 + round]) <= guests[4 + round]->bin_budget_used);
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
  struct heap *parked = homes[1];
  heap_return(parked);
  for (unsigned i = 0; i < count; i += 2) lock_acquire(&homes[i]->lock);
  beside(&call, true);
  struct heap *heap = heap_borrow();
  assert_non_null(heap);
  assert_false(heap_is_guest(heap));
  assert_ptr_not_equal(heap, parked); /* which has guests */
  void *block = take(heap, 144);
  assert_ptr_equal(owner_of(block, 144), heap);
  put(heap, block);
  heap_return(heap);
  hak_free(hak_malloc(5000));
  beside(&call, false);
  for (unsigned i = 0; i < count; i += 2) lock_release(&homes[i]->lock);
  alarm(0);
  assert_ptr_equal(heap_of_thread(), homes[0]);
  /* The next thread has it. */
  assert_ptr_equal(heap_borrow(), heap);
  assert_ptr_equal(heap_borrow(), parked);
  heap_return(heap);
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
    for (unsigned i = 0; i < count; i++) EXPECT(homes[i]->users == 1 + GUESTS_EACH);
    for (unsigned i = 0; i < guest_count(); i++) heap_return(guests[i]);
    for (unsigned i = 1; i < count; i++) heap_return(homes[i]);
    EXPECT(homes[0]->users == 1);
    for (unsigned i = 1; i < count; i++) EXPECT(homes[i]->users == 0);
    _exit(0);
  }
  child_ends_well(child);
}

/* A library that is told of pages forks. */
static void a_child_of_such_a_call_counts_its_thread(void **state) {
  (void)state;
  struct os_beside call = {0};
  beside(&call, true);
  struct heap *heap = heap_borrow();
  pid_t child = fork_here();
  if (child == 0) {
    heap_return(heap);
    EXPECT(heap->users == 0);
    beside(&call, false);
    EXPECT(heap_of_thread() == homes[0] && homes[0]->users == 1 + GUESTS_EACH);
    _exit(0);
  }
  heap_return(heap);
  beside(&call, false);
  child_ends_well(child);
}

static atomic_int step;
static struct heap *waiting; /* a guest's, whose thread sleeps */

static void wait_for_step(int wanted) {
  while (atomic_load(&step) < wanted) usleep(100);
}

enum { HELD_SIZE = 176, HELD = 20 };
static void *held[HELD];

static void *hold_blocks(void *unused) {
  for (int i = 0; i < HELD; i++) held[i] = hak_malloc(HELD_SIZE);
  for (int i = 0; i < HELD / 2; i++) hak_free(held[i]);
  waiting = heap_of_thread();
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
  assert_true(heap_is_guest(waiting));
  struct heap *home = waiting->home;
  assert_int_equal(homes_users(home), 2 + GUESTS_EACH);
  pid_t child = fork_here();
  if (child == 0) {
    EXPECT(waiting->state == HEAP_PARKED && waiting->in_doubt);
    EXPECT(homes_users(home) == 1 + GUESTS_EACH);
    EXPECT(waiting->bins[class_for(HELD_SIZE)].head != NULL);
    for (int i = HELD / 2; i < HELD; i++) hak_free(held[i]);
    hak_purge();
    EXPECT(bins_bytes(waiting) == 0);
    hak_purge();
    EXPECT(live_of(home, HELD_SIZE) == 0);
    EXPECT(heap_borrow() != NULL);
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

static struct heap *lost;

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
  struct heap *guest = NULL, *sleeper = NULL;
  lost = homes[1];
  for (unsigned i = 0; i < guest_count(); i++) {
    if (guests[i]->home != lost) continue;
    sleeper = guest;
    guest = guests[i];
  }
  void *block = take(guest, SIZE);
  heap_return(sleeper);
  atomic_store(&step, 0);
  assert_int_equal(pthread_create(&thread, NULL, take_lock_away, NULL), 0);
  when_forking = let_the_lock_be_taken;
  pid_t child = fork_here();
  if (child == 0) {
    EXPECT(lost->state == HEAP_LOST);
    for (unsigned i = 0; i < guest_count(); i++) {
      EXPECT(guests[i]->home != lost || guests[i] == sleeper);
      EXPECT(heap_is_guest(guests[i]) || guests[i]->users == 1);
    }
    EXPECT(!heap_is_guest(guest));
    put(guest, block); /* whose slab is lost */
    for (int i = 0; i < 1000; i++) block = take(guest, SIZE);
    EXPECT(owner_of(block, SIZE) == guest);
    put(guest, block);
    heap_return(guest);
    /* With slabs it waits for the next thread; the one that had none gets another home with the next. */
    EXPECT(heap_borrow() == guest && !heap_is_guest(guest));
    EXPECT(heap_borrow() == sleeper && sleeper->home != lost);
    _exit(0);
  }
  when_forking = NULL;
  atomic_store(&step, 3);
  pthread_join(thread, NULL);
  child_ends_well(child);
  put(guest, block);
  assert_ptr_equal(heap_borrow(), sleeper);
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
      cmocka_unit_test(a_guests_blocks_are_its_homes),
      cmocka_unit_test(blocks_of_another_home_go_there),
      cmocka_unit_test(one_refill_does_not_take_all),
      cmocka_unit_test(what_runs_over_goes_home_in_batches),
      cmocka_unit_test(where_much_waits_the_engine_is_wanted),
      cmocka_unit_test(who_goes_on_with_another_size_finds_room),
      cmocka_unit_test(what_many_free_becomes_empty_slabs),
      cmocka_unit_test(beats_empty_the_inbox),
      cmocka_unit_test(a_guest_that_ends_leaves_nothing),
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
