/* room.c - hak_room: how many bytes are left of the block that an address lies in. CMakeLists.txt runs it again with each block a sample or a
 * guarded sample, and in the modes of the hardened variant. */
#include "unit_test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "front/block.h"
#include "heap/samples.h"
#include "policy/options.h"
#include "sample/guarded.h"

static bool is_full(void) { return option_guard() == GUARD_FULL; }
static bool knows_free_blocks(void) { return option_guard() != GUARD_OFF; }

/* What is left at its start. */
static size_t room_of(const void *block, size_t asked) {
  size_t room = hak_room(block), usable = hak_usable_size(block);
  struct block found = block_find(block);
  assert_null(found.wrong);
  assert_int_equal(room, is_full() ? asked : usable);
  return room;
}

static void check_inside(const char *block, size_t room) {
  const size_t offsets[] = {0, 1, 2, room / 3, room / 2, room - 2, room - 1};
  for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++)
    if (offsets[i] < room) assert_int_equal(hak_room(block + offsets[i]), room - offsets[i]);
}

/* Behind the end, as far as what lies there is the block's own. */
static void check_behind(const char *block, size_t room) {
  struct block found = block_find(block);
  size_t all = found.usable;
  if (found.tier == BLOCK_HUGE &&
      found.superslab->huge_cuts == 0) /* else the rest is not ours (huge_cut.h) */
    all = (size_t)found.superslab->huge_units << UNIT_SHIFT;
  if (found.tier == BLOCK_LARGE) all = (size_t)found.slab->slices << SLICE_SHIFT;
  if (found.tier == BLOCK_GUARDED)
    all = room + 1; /* a page that cannot be touched, or what is left of its own */
  for (size_t at = room; at < all; at += (all - room) / 7 + 1)
    assert_int_equal(hak_room(block + at), 0);
  if (room < all) assert_int_equal(hak_room(block + all - 1), 0);
}

/* The sampler's lock is not waited for: a sample then ends with its slot. */
static void while_the_sampler_is_busy(void **state) {
  (void)state;
  char *block = hak_malloc(700);
  struct block found = block_find(block);
  if (found.tier == BLOCK_SAMPLE && !is_full()) {
    lock_acquire(&heap_samples.lock);
    assert_int_equal(hak_room(block + 1), slab_block_size(found.slab) - 1);
    lock_release(&heap_samples.lock);
    assert_int_equal(hak_room(block + 1), hak_usable_size(block) - 1);
  }
  hak_free(block);
}

static void check(const char *block, size_t asked) {
  assert_non_null(block);
  size_t room = room_of(block, asked);
  assert_true(room >= asked);
  check_inside(block, room);
  check_behind(block, room);
}

static void every_size_from_end_to_end(void **state) {
  (void)state;
  for (int i = 0; i < TEST_SIZE_COUNT; i++) {
    char *block = hak_malloc(test_sizes[i]);
    check(block, test_sizes[i]);
    fill_block(block, test_sizes[i], 1);
    check(block, test_sizes[i]);
    hak_free(block);
  }
  char *nothing = hak_malloc(0);
  check(nothing, 0);
  hak_free(nothing);
}

static void every_byte_of_many_neighbours(void **state) {
  (void)state;
  enum { BLOCKS = 200, SIZE = 72 };
  static char *blocks[BLOCKS];
  for (int i = 0; i < BLOCKS; i++) assert_non_null(blocks[i] = hak_malloc(SIZE));
  for (int i = 0; i < BLOCKS; i++) {
    size_t room = room_of(blocks[i], SIZE);
    for (size_t at = 0; at < room; at++) assert_int_equal(hak_room(blocks[i] + at), room - at);
  }
  for (int i = 0; i < BLOCKS; i++) hak_free(blocks[i]);
}

static void aligned_blocks(void **state) {
  (void)state;
  for (int shift = 3; shift <= 30; shift++) {
    static const size_t sizes[] = {1, 1000, 100000};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
      char *block = hak_aligned_alloc((size_t)1 << shift, sizes[i]);
      check(block, sizes[i]);
      hak_free(block);
    }
  }
}

static void blocks_that_change_their_size(void **state) {
  (void)state;
  static const size_t sizes[] = {10,      100,     90,      5000,    4000,        70000,   69000,
                                 300000,  200000,  MIB + 1, 3 * MIB, 3 * MIB + 1, 5 * MIB, 2 * MIB,
                                 6 * MIB, 1100000, 100000,  30000,   16};
  char *block = NULL;
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    block = hak_realloc(block, sizes[i]);
    check(block, sizes[i]);
  }
  hak_free(block);
  block = hak_calloc(3, 1000);
  check(block, 3000);
  hak_free(block);
}

static void *free_it(void *block) {
  hak_free(block);
  return NULL;
}

static void check_freed(const char *block, size_t size, bool was_guarded) {
  size_t at_start = hak_room(block), inside = hak_room(block + size / 2);
  if (size > MIB) {
    assert_true(at_start == SIZE_MAX && inside == SIZE_MAX);
  } else if (size > SMALL_MAX) {
    /* Its address space may have gone with its last block. */
    assert_true(at_start == 0 || at_start == SIZE_MAX);
    assert_int_equal(inside, at_start);
  } else if (was_guarded || knows_free_blocks()) {
    assert_true(at_start == 0 && inside == 0);
  }
}

static void freed_blocks(void **state) {
  (void)state;
  for (int i = 0; i < TIER_COUNT; i++)
    for (int elsewhere = 0; elsewhere < 2; elsewhere++) {
      pthread_t thread;
      char *block = opaque(hak_malloc(tier_sizes[i]));
      void *neighbour = hak_malloc(tier_sizes[i]); /* keeps their memory */
      bool guarded = guarded_has(block);
      assert_true(block != NULL && neighbour != NULL);
      if (elsewhere != 0) {
        assert_int_equal(pthread_create(&thread, NULL, free_it, block), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
      } else {
        hak_free(block);
      }
      check_freed(opaque(block), tier_sizes[i], guarded);
      hak_free(neighbour);
    }
}

static void what_was_never_a_block(void **state) {
  (void)state;
  char *block = hak_malloc(48);
  struct block found = block_find(block);
  assert_non_null(block);
  if (found.tier == BLOCK_SMALL && slab_carved(found.slab) < found.slab->capacity) {
    const char *next = slab_base(found.slab) + (size_t)slab_carved(found.slab) * found.usable;
    assert_int_equal(hak_room(next), 0);
    assert_int_equal(hak_room(next + found.usable - 1), 0);
  }
  hak_free(block);
}

/* Where freed blocks wait, those that realloc leaves do, too. */
static void what_realloc_leaves_is_not_reused_at_once(void **state) {
  (void)state;
  char *block = hak_malloc(100);
  assert_non_null(block);
  bool is_sample = block_find(block).tier != BLOCK_SMALL;
  uintptr_t left = (uintptr_t)block;
  block[99] = 'x';
  char *moved = hak_realloc(block, 5000);
  assert_non_null(moved);
  assert_int_equal(moved[99], 'x');
  void *next = hak_malloc(100);
  assert_non_null(next);
  if (is_full() && !is_sample) assert_true((uintptr_t)next != left);
  hak_free(next);
  hak_free(moved);
}

/* The canary says how much was asked for. Bytes between the two are not looked at: in constant time. */
static void a_damaged_end_is_no_end(void **state) {
  (void)state;
  if (!is_full()) return;
  static const size_t sizes[] = {8, 56, 248};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    unsigned char *block = opaque(hak_malloc(sizes[i]));
    if (block_find(block).tier != BLOCK_SMALL) continue; /* a sample has more bytes between */
    block[sizes[i]] ^= 1;
    assert_int_equal(hak_room(block), 0);
    block[sizes[i]] ^= 1;
    assert_int_equal(hak_room(block), sizes[i]);
    hak_free(block);
  }
}

static bool is_told_as_usable(void *block, size_t usable, void *argument) {
  assert_int_equal(usable, hak_usable_size(block));
  assert_int_equal(usable, hak_room(block));
  ++*(int *)argument;
  return true;
}

static void a_walk_tells_what_is_usable(void **state) {
  (void)state;
  int walked = 0;
  hak_heap *heap = hak_heap_create("told", 0);
  for (int i = 0; i < TEST_SIZE_COUNT; i++) {
    unsigned char *block = hak_heap_malloc(heap, test_sizes[i]);
    assert_non_null(block);
    fill_block(block, test_sizes[i], 1);
  }
  assert_true(hak_heap_walk(heap, is_told_as_usable, &walked));
  assert_int_equal(walked, TEST_SIZE_COUNT);
  hak_heap_destroy(heap);
}

/* What a child says in which the byte behind the block is written, and which then does this. */
static bool says_when_damaged(void (*use)(void *block), const char *message) {
  int ends[2], status;
  char said[256] = "";
  unsigned char *block = opaque(hak_malloc(40));
  assert_int_equal(pipe(ends), 0);
  pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], 2);
    os_note_stderr();
    block[40] ^= 1;
    use(block);
    _exit(0);
  }
  close(ends[1]);
  assert_true(read(ends[0], said, sizeof said - 1) >= 0);
  close(ends[0]);
  assert_int_equal(waitpid(child, &status, 0), child);
  hak_free(block);
  return strncmp(said, message, strlen(message)) == 0 && strstr(said, "beyond its end") != NULL;
}

static void free_sized(void *block) { hak_free_sized(block, 40); }
static void ask_for_size(void *block) { (void)hak_usable_size(block); }
static void resize(void *block) { hak_free(hak_realloc(block, 50)); }

static void a_damaged_end_is_told_of_by_the_function_that_finds_it(void **state) {
  (void)state;
  if (!is_full() || guarded_has(hak_malloc(40))) return;
  assert_true(says_when_damaged(hak_free, "hakmem: free(): "));
  assert_true(says_when_damaged(free_sized, "hakmem: free(): "));
  assert_true(says_when_damaged(ask_for_size, "hakmem: malloc_usable_size(): "));
  assert_true(says_when_damaged(resize, "hakmem: realloc(): "));
}

static char in_data[100] = {1};
static char in_bss[100];
static const char in_text[] = "read-only";

static void others_memory(void **state) {
  (void)state;
  char on_stack[100];
  static const uintptr_t garbage[] = {0x1,
                                      0xfff,
                                      0x1fffff,
                                      0xdeadbeef,
                                      0x7fffffffffff,
                                      0x800000000000,
                                      0xdeadbeefdeadbeef,
                                      0xffff800000000000,
                                      UINTPTR_MAX};
  assert_true(hak_room(NULL) == SIZE_MAX);
  assert_true(hak_room(on_stack) == SIZE_MAX);
  assert_true(hak_room(in_data) == SIZE_MAX && hak_room(in_bss) == SIZE_MAX);
  assert_true(hak_room(in_text) == SIZE_MAX);
  assert_true(hak_room((const void *)(uintptr_t)others_memory) == SIZE_MAX);
  for (size_t i = 0; i < sizeof garbage / sizeof garbage[0]; i++)
    assert_true(hak_room((const void *)garbage[i]) == SIZE_MAX);
  char *theirs = opaque(malloc(1000));
  assert_true(hak_room(theirs) == SIZE_MAX && hak_room(theirs + 999) == SIZE_MAX);
  free(theirs);
}

/* --- threads ------------------------------------------------------------------------------------------------- */

static atomic_bool stop;

static void *allocate_and_free(void *unused) {
  (void)unused;
  enum { COUNT = 512 };
  static void *blocks[COUNT];
  uint64_t random = 7;
  while (!atomic_load(&stop)) {
    void **block = &blocks[random_below(&random, COUNT)];
    hak_free(*block);
    *block = hak_malloc(random_below(&random, 8) == 0 ? 100000 : random_below(&random, 500));
  }
  for (int i = 0; i < COUNT; i++) hak_free(blocks[i]);
  return NULL;
}

/* No live block has less than it has, whatever happens beside it. */
static void asked_while_others_work(void **state) {
  (void)state;
  enum { BLOCKS = 300 };
  static char *blocks[BLOCKS];
  pthread_t thread;
  atomic_store(&stop, false);
  assert_int_equal(pthread_create(&thread, NULL, allocate_and_free, NULL), 0);
  uint64_t random = 1;
  for (int round = 0; round < 200; round++) {
    for (int i = 0; i < BLOCKS; i++) {
      size_t size = 1 + random_below(&random, 500);
      blocks[i] = hak_malloc(size);
      assert_non_null(blocks[i]);
      assert_true(hak_room(blocks[i]) >= size);
      assert_true(hak_room(blocks[i] + size - 1) >= 1);
    }
    for (int i = 0; i < BLOCKS; i++) hak_free(blocks[i]);
  }
  atomic_store(&stop, true);
  assert_int_equal(pthread_join(thread, NULL), 0);
}

/* In a process of its own, before anything was allocated. */
static void works_before_the_first_allocation(void) {
  char on_stack[16];
  if (hak_room(NULL) == SIZE_MAX && hak_room(on_stack) == SIZE_MAX) return;
  fprintf(stderr, "hak_room is wrong before the first allocation\n");
  exit(1);
}

int main(void) {
  works_before_the_first_allocation();
  hak_free(hak_malloc(1)); /* reads the options */
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_size_from_end_to_end),
      cmocka_unit_test(every_byte_of_many_neighbours),
      cmocka_unit_test(aligned_blocks),
      cmocka_unit_test(blocks_that_change_their_size),
      cmocka_unit_test(while_the_sampler_is_busy),
      cmocka_unit_test(freed_blocks),
      cmocka_unit_test(what_was_never_a_block),
      cmocka_unit_test(what_realloc_leaves_is_not_reused_at_once),
      cmocka_unit_test(a_damaged_end_is_no_end),
      cmocka_unit_test(a_walk_tells_what_is_usable),
      cmocka_unit_test(a_damaged_end_is_told_of_by_the_function_that_finds_it),
      cmocka_unit_test(others_memory),
      cmocka_unit_test(asked_while_others_work),
  };
  return cmocka_run_group_tests_name("room", tests, NULL, NULL);
}
