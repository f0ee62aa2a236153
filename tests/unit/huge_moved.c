/* huge_moved.c - blocks that are moved as one mapping, by a kernel that knows nothing of multiples of 2 MiB (Linux before 6.7). */
#include "superslab_figures.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "os/fault.h"
#include "superslab/map.h"

WITHOUT_SAMPLES;

static size_t head; /* bytes behind a multiple of 2 MiB */
static unsigned calls;
static char *chosen;           /* where the room begins; NULL: where it comes */
static bool refused_from_then; /* all memory calls behind that one */

void *__real_os_resize(void *address, size_t bytes, size_t new_bytes);
void *__wrap_os_resize(void *address, size_t bytes, size_t new_bytes); /* the linker calls it so */
void *__wrap_os_resize(void *address, size_t bytes, size_t new_bytes) {
  calls++;
  char *room =
      mmap(chosen, new_bytes + 2 * UNIT_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(room != MAP_FAILED);
  char *aligned = room + (-(uintptr_t)room & (UNIT_BYTES - 1)), *to = aligned + head;
  void *moved = mremap(address, bytes, new_bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to);
  char *end = to + new_bytes, *room_end = room + new_bytes + 2 * UNIT_BYTES;
  if (to > room) munmap(room, (size_t)(to - room));
  if (room_end > end) munmap(end, (size_t)(room_end - end));
  if (refused_from_then) os_fault_fail_from(1);
  return moved == to ? to : NULL;
}

/* High enough for this test: what is asked for is whether there is one. */
static void set_limit(rlim_t bytes) {
  struct rlimit limit;
  assert_int_equal(getrlimit(RLIMIT_AS, &limit), 0);
  limit.rlim_cur = bytes;
  assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
}

static void grows_from(size_t bytes, size_t to, size_t where) {
  uint64_t mapped = unit_figures().bytes_mapped;
  unsigned char *block = hak_malloc(bytes);
  assert_non_null(block);
  fill_block(block, bytes, bytes + where);
  head = where;
  calls = 0;
  set_limit((rlim_t)1 << 62);
  unsigned char *longer = hak_realloc(block, to);
  set_limit(RLIM_INFINITY);
  assert_non_null(longer);
  assert_int_equal(calls, 1);
  assert_int_equal((uintptr_t)longer % UNIT_BYTES, 0);
  assert_true(block_is_filled(longer, bytes, bytes + where));
  assert_true(hak_usable_size(longer) >= to);
  memset(longer, 3, to);
  hak_free(longer);
  hak_purge();
  assert_int_equal(unit_figures().bytes_mapped, mapped);
}

static void a_place_of_the_kernels_choice_is_made_to_fit(void **state) {
  (void)state;
  static const size_t heads[] = {0, 4096, 65536, MIB, UNIT_BYTES - 4096};
  hak_free(hak_malloc(100));
  hak_purge();
  for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
    grows_from(3 * MIB, 7 * MIB, heads[i] / os_page_size() * os_page_size());
    grows_from(40 * MIB - 5000, 43 * MIB, heads[i] / os_page_size() * os_page_size());
  }
}

/* Across a border of leaves, of which neither is there: as far below what is mapped as this test maps in all. */
static char *place_without_leaves(void) {
  uintptr_t leaf = (uintptr_t)&head >> LEAF_SHIFT;
  do leaf -= 64;
  while (map_leaf_of(leaf << LEAF_SHIFT) != NULL || map_leaf_of((leaf - 1) << LEAF_SHIFT) != NULL);
  return (char *)(leaf << LEAF_SHIFT) -
         4 * UNIT_BYTES; // NOLINT(performance-no-int-to-ptr): a place
}

/* What is in the way of a move is known before the block has left its place. */
static void a_block_is_not_lost_where_the_map_gets_no_memory(void **state) {
  (void)state;
  const size_t bytes = 11 * MIB, to = 17 * MIB;
  unsigned char *block = hak_malloc(bytes);
  assert_non_null(block);
  fill_block(block, bytes, 3);
  calls = 0;
  set_limit((rlim_t)1 << 62);
  os_fault_fail_from(1);
  assert_null(hak_realloc(block, to));
  os_fault_reset();
  assert_int_equal(calls, 0);
  assert_true(block_is_filled(block, bytes, 3));
  head = 0;
  chosen = place_without_leaves();
  refused_from_then = true;
  unsigned char *longer = hak_realloc(block, to);
  os_fault_reset();
  set_limit(RLIM_INFINITY);
  assert_int_equal(calls, 1);
  assert_true(longer >= (unsigned char *)chosen && longer <= (unsigned char *)chosen + UNIT_BYTES);
  assert_true(block_is_filled(longer, bytes, 3));
  memset(longer, 3, to);
  chosen = NULL;
  refused_from_then = false;
  hak_free(longer);
  hak_purge();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_place_of_the_kernels_choice_is_made_to_fit),
      cmocka_unit_test(a_block_is_not_lost_where_the_map_gets_no_memory),
  };
  return cmocka_run_group_tests_name("huge moved", tests, NULL, NULL);
}
