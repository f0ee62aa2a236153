/* early_huge_pages.c - the first SuperSlabs of a heap, with small pages, become huge pages once the heap is large. */
#include "smaps.h"
#include "superslab_figures.h"

#include <sys/wait.h>
#include <unistd.h>

#include "hakmem.h"
#include "policy/options.h"
#include "superslab/collapse.h"
#include "superslab/emptied.h"
#include "superslab/map.h"

WITHOUT_SAMPLES;

enum { SIZE = 2048, PER_UNIT = UNIT_BYTES / SIZE, COUNT = 3 * HUGE_PAGES_FROM / SIZE };

static unsigned char *blocks[COUNT];
static size_t count;

static int start(void **state) {
  (void)state;
  options_at_start();
  SET_OPTION(WARM_POOL_DECAY_MS, VERY_LONG_MS);
  SET_OPTION(WARM_POOL_MB, 0); /* so that all memory is new */
  SET_OPTION(BACKGROUND, BACKGROUND_NEVER);
  SET_OPTION(SS_HUGEPAGE, HUGEPAGE_THP);
  SET_OPTION(SS_MEM_LEAN, 0);
  hak_purge();
  return 0;
}

static void grow(size_t bytes) {
  for (size_t end = count + bytes / SIZE; count < end; count++) {
    assert_in_range(count, 0, COUNT - 1);
    assert_non_null(blocks[count] = hak_malloc(SIZE));
    memset(blocks[count], (int)(count % 251), SIZE);
  }
}

static int end(void **state) {
  (void)state;
  while (count > 0) hak_free(blocks[--count]);
  hak_purge();
  return 0;
}

static void contents_are_there(void) {
  for (size_t i = 0; i < count; i++)
    for (size_t at = 0; at < SIZE; at++) assert_int_equal(blocks[i][at], i % 251);
}

static bool has_any(const struct smaps_entry *entry, unsigned char *const *places, size_t many,
                    size_t step) {
  for (size_t i = 0; i < many; i += step)
    if ((uintptr_t)places[i] >= entry->from && (uintptr_t)places[i] < entry->to) return true;
  return false;
}

/* Bytes in huge pages that were not asked for as such, in mappings that have one of these addresses in them. */
static size_t early_huge_bytes_at(unsigned char *const *places, size_t many, size_t step) {
  struct smaps_entry entry = {0};
  size_t sum = 0;
  FILE *smaps = fopen("/proc/self/smaps", "re");
  assert_non_null(smaps);
  while (smaps_next(smaps, &entry))
    if (strstr(entry.flags, " hg") == NULL && has_any(&entry, places, many, step))
      sum += entry.huge_bytes;
  fclose(smaps);
  return sum;
}

static size_t early_huge_bytes(void) { return early_huge_bytes_at(blocks, count, PER_UNIT / 4); }

/* False, and said: there is nothing to see. An emulator says of advice that it does not know that all went well. */
static bool kernel_collapses(void) {
  unsigned char *memory =
      mmap(NULL, 2 * UNIT_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(memory != MAP_FAILED);
  unsigned char *unit = memory + (UNIT_BYTES - (uintptr_t)memory % UNIT_BYTES) % UNIT_BYTES;
  memset(unit, 1, UNIT_BYTES);
  size_t resident;
  bool can = os_huge_pages_are_allowed() && os_collapse(unit, UNIT_BYTES) &&
             early_huge_bytes_at(&unit, 1, 1) >= UNIT_BYTES &&
             os_resident_part(unit, UNIT_BYTES, &resident);
  munmap(memory, 2 * UNIT_BYTES);
  if (!can)
    print_message("skipped: the kernel makes no huge page of small ones, or none are wanted\n");
  return can;
}

static void a_small_heap_stays_in_small_pages(void **state) {
  (void)state;
  grow(HUGE_PAGES_FROM - 4 * UNIT_BYTES);
  assert_int_equal(early_huge_bytes(), 0);
  contents_are_there();
}

static void a_large_heap_gets_them(void **state) {
  (void)state;
  if (!kernel_collapses()) skip();
  grow(2 * HUGE_PAGES_FROM + 4 * UNIT_BYTES);
  size_t small = 0;
  for (size_t i = 0; i < count; i += PER_UNIT / 4)
    small += !superslab_is_whole(map_superslab(blocks[i]));
  /* All but two SuperSlabs: the first has the test's other memory, and the last is not full. */
  assert_in_range(small, 0, 4 * 2);
  assert_in_range(early_huge_bytes(), HUGE_PAGES_FROM - 4 * UNIT_BYTES, HUGE_PAGES_FROM);
  contents_are_there();
}

/* In the parent and in the child: a huge page would be a copy for each. */
static void pages_that_a_fork_shares_stay_shared(void **state) {
  (void)state;
  if (!kernel_collapses()) skip();
  int ready[2], over[2];
  char byte = 0;
  grow(HUGE_PAGES_FROM - 2 * UNIT_BYTES);
  assert_int_equal(pipe(ready), 0);
  assert_int_equal(pipe(over), 0);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    close(over[1]);
    grow(HUGE_PAGES_FROM);
    byte = early_huge_bytes() == 0;
    if (write(ready[1], &byte, 1) != 1 || read(over[0], &byte, 1) != 0) _exit(1);
    _exit(0);
  }
  assert_int_equal(read(ready[0], &byte, 1), 1);
  assert_true(byte);
  grow(HUGE_PAGES_FROM / 2);
  assert_int_equal(early_huge_bytes(), 0);
  int status;
  close(ready[0]), close(ready[1]), close(over[0]), close(over[1]);
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  grow(HUGE_PAGES_FROM);
  assert_true(early_huge_bytes() > 0);
  contents_are_there();
}

/* Else it would count as gone, and nobody would give it back once more. */
static void what_was_given_back_stays_away(void **state) {
  (void)state;
  enum { OTHER = 3000, OTHERS = 16 * 1024 };
  static void *others[OTHERS];
  if (!kernel_collapses()) skip();
  grow(HUGE_PAGES_FROM - 2 * UNIT_BYTES);
  for (size_t i = 0; i < count; i++) {
    if (i % 160 >= 6) continue;
    hak_free(blocks[i]);
    blocks[i] = NULL;
  }
  hak_purge();
  for (size_t i = 0; i < OTHERS; i++) {
    assert_non_null(others[i] = hak_malloc(OTHER));
    memset(others[i], 1, OTHER);
  }
  for (size_t i = 1; i < count; i += PER_UNIT / 4)
    if (blocks[i] != NULL) assert_false(superslab_is_whole(map_superslab(blocks[i])));
  for (size_t i = 0; i < OTHERS; i++) hak_free(others[i]);
}

static void a_protected_page_bars_its_own_unit_alone(void **state) {
  (void)state;
  if (!kernel_collapses()) skip();
  grow(HUGE_PAGES_FROM - 2 * UNIT_BYTES);
  uintptr_t page = (uintptr_t)blocks[8 * PER_UNIT] & ~(uintptr_t)4095;
  assert_int_equal(mprotect((void *)page, 4096, PROT_READ), 0);
  grow(2 * HUGE_PAGES_FROM);
  assert_int_equal(mprotect((void *)page, 4096, PROT_READ | PROT_WRITE), 0);
  assert_true(early_huge_bytes() >= HUGE_PAGES_FROM - 6 * UNIT_BYTES);
  assert_false(superslab_is_whole(map_superslab((void *)page)));
  contents_are_there();
}

/* As a server's buffers are: a huge page would be in memory for a page or two of each. */
static void blocks_that_are_not_written_whole_stay_in_small_pages(void **state) {
  (void)state;
  enum { BUFFER = 16 * 1024, WRITTEN = 1000, BUFFERS = 4 * HUGE_PAGES_FROM / BUFFER };
  static unsigned char *buffers[BUFFERS];
  if (!kernel_collapses()) skip();
  size_t whole = 0;
  for (size_t i = 0; i < BUFFERS; i++) {
    assert_non_null(buffers[i] = hak_malloc(BUFFER));
    memset(buffers[i], 1, WRITTEN);
    if (i % (UNIT_BYTES / BUFFER) == 0) whole += superslab_is_whole(map_superslab(buffers[i]));
  }
  /* The first one that was to have a huge page: nothing was known. */
  assert_in_range(whole, 0, 2);
  /* They are used after all. */
  for (size_t i = 0; i < BUFFERS; i++) memset(buffers[i], 1, BUFFER);
  grow(HUGE_PAGES_FROM);
  for (size_t i = whole = 0; i < count; i += PER_UNIT / 4)
    whole += superslab_is_whole(map_superslab(blocks[i]));
  assert_in_range(whole, 4 * (HUGE_PAGES_FROM / UNIT_BYTES - 4), SIZE_MAX);
  for (size_t i = 0; i < BUFFERS; i++) hak_free(buffers[i]);
}

static void not_without_the_option(void **state) {
  (void)state;
#if HAK_FAST
  print_message("skipped: options are constants in this build\n");
  skip();
#endif
  SET_OPTION(SS_HUGEPAGE, HUGEPAGE_OFF);
  grow(2 * HUGE_PAGES_FROM);
  assert_int_equal(early_huge_bytes(), 0);
  for (size_t i = 0; i < count; i += PER_UNIT / 4)
    assert_false(superslab_is_whole(map_superslab(blocks[i])));
}

/* Takes one as a thread does that is about to call the kernel. */
static struct superslab *take(void) {
  grow(HUGE_PAGES_FROM - 2 * UNIT_BYTES);
  struct superslab *superslab = collapse_take();
  assert_non_null(superslab);
  assert_int_equal(superslab->free_mask, 0);
  assert_false(superslab_is_whole(superslab));
  return superslab;
}

static void one_that_was_emptied_meanwhile_goes_afterwards(void **state) {
  (void)state;
  struct superslab *superslab = take();
  char *base = superslab->base;
  assert_null(collapse_take()); /* one at a time */
  end(NULL);
  /* It is empty, still mapped, and no other's. */
  assert_ptr_equal(map_superslab(base), superslab);
  assert_int_equal(superslab->free_mask, UINT32_MAX);
  uint64_t live = span_figures().live;
  memset(base, 1, UNIT_BYTES);
  collapse_put(superslab, COLLAPSE_DONE);
  assert_int_equal(span_figures().live, live - 1);
  assert_null(map_superslab(base));
  assert_null(collapse_take());
}

static void one_that_is_used_again_meanwhile_stays(void **state) {
  (void)state;
  struct superslab *superslab = take();
  end(NULL);
  grow(HUGE_PAGES_FROM / 2);
  collapse_put(superslab, COLLAPSE_NEVER);
  contents_are_there();
}

static void in_the_child_of_a_fork_nothing_is_held(void **state) {
  (void)state;
  struct superslab *superslab = take();
  collapse_fork_child(true);
  struct superslab *other = collapse_take();
  assert_non_null(other);
  assert_ptr_not_equal(other, superslab);
  collapse_put(superslab, COLLAPSE_DONE); /* by who was interrupted there: says nothing of it */
  assert_false(superslab_is_whole(superslab));
  collapse_put(other, COLLAPSE_DONE);
  assert_true(superslab_is_whole(other));
}

int main(void) {
  if (os_page_size() != 4096) {
    puts("skipped: a huge page is no unit here");
    return 77;
  }
#define TEST(name) cmocka_unit_test_setup_teardown(name, start, end)
  const struct CMUnitTest tests[] = {
      TEST(a_small_heap_stays_in_small_pages),
      TEST(a_large_heap_gets_them),
      TEST(pages_that_a_fork_shares_stay_shared),
      TEST(what_was_given_back_stays_away),
      TEST(a_protected_page_bars_its_own_unit_alone),
      TEST(blocks_that_are_not_written_whole_stay_in_small_pages),
      TEST(not_without_the_option),
      TEST(one_that_was_emptied_meanwhile_goes_afterwards),
      TEST(one_that_is_used_again_meanwhile_stays),
      TEST(in_the_child_of_a_fork_nothing_is_held),
  };
  return cmocka_run_group_tests_name("early huge pages", tests, NULL, NULL);
}
