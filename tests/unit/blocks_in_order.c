/* blocks_in_order.c - blocks that others free come back slab by slab, in the order of their addresses, when many of them wait. */
#include "two_heaps.h"

#include "heap/refill.h"
#include "heap/slabs.h"

WITHOUT_SAMPLES;

enum { MANY = 131072, MANY_SIZE = 64, MANY_STEP = 9973, FEW = MANY / 4 };
static void *many[MANY];

/* How often a block of the owner's next `count` ones is of another slab than the one before, of these many to be had. */
static unsigned changes_of_slab(size_t count) {
  const struct slab *last = NULL;
  unsigned changes = 0;
  for (size_t i = 0; i < count; i++) {
    assert_non_null(many[i] = hak_malloc(MANY_SIZE));
    const struct slab *slab = slab_head(map_slab(many[i]));
    changes += slab != last;
    last = slab;
  }
  return changes;
}

/* In an order in which no two blocks of a slab follow each other. */
static void send_mixed(size_t count) {
  for (size_t i = 0, at = 0; i < count; i++, at = (at + MANY_STEP) % count) send(other, many[at]);
  remote_flush(other);
}

static void free_many(size_t from, size_t to) {
  for (size_t i = from; i < to; i++) hak_free(many[i]);
}

/* Two MiB are handed out as they came. Of eight the most go back into slabs while the first ones are handed out, and come slab by
 * slab. */
static void many_blocks_come_slab_by_slab(void **state) {
  (void)state;
  (void)changes_of_slab(MANY);
  send_mixed(MANY);
  assert_true(inbox_bytes(owner->arena) == (int64_t)MANY * MANY_SIZE);
  unsigned changes = changes_of_slab(MANY);
  print_message("%d blocks: %u changes of slab\n", MANY, changes);
  assert_true(changes < MANY / 8);
  assert_false(owner->arena->classes[class_for(MANY_SIZE)].sorts);
  free_many(FEW, MANY);
  send_mixed(FEW);
  changes = changes_of_slab(FEW);
  print_message("%d blocks: %u changes of slab\n", FEW, changes);
  assert_true(changes > FEW / 2);
  free_many(0, FEW);
}

/* What waits of one class is no reason to put another's back. */
static void a_class_of_which_little_waits_is_not_sorted(void **state) {
  (void)state;
  enum { OTHER_SIZE = 112, COUNT = 300 };
  static void *others[COUNT];
  unsigned size_class = class_for(OTHER_SIZE);
  (void)changes_of_slab(MANY);
  for (int i = 0; i < COUNT; i++) assert_non_null(others[i] = hak_malloc(OTHER_SIZE));
  while (owner->bins[size_class].head != NULL) assert_non_null(hak_malloc(OTHER_SIZE));
  send_mixed(MANY);
  for (size_t i = 0; i < COUNT; i++) send(other, others[i]);
  remote_flush(other);
  void *block = hak_malloc(OTHER_SIZE);
  assert_ptr_equal(block, others[COUNT - 1]);
  assert_false(owner->arena->classes[size_class].sorts);
  hak_free(block);
  (void)changes_of_slab(MANY);
  free_many(0, MANY);
}

/* Sends so many blocks of a size, which wait in any order, and has one refill. How many blocks are then gone from what waits? */
static unsigned sorted_by_a_refill(size_t size, size_t count) {
  unsigned size_class = class_for(size);
  for (size_t k = 0; k < count; k++) assert_non_null(many[k] = hak_malloc(size));
  while (owner->bins[size_class].head != NULL) assert_non_null(hak_malloc(size));
  send_mixed(count);
  int64_t before = inbox_bytes(owner->arena);
  hak_free(hak_malloc(size));
  unsigned gone = (unsigned)((size_t)(before - inbox_bytes(owner->arena)) / size);
  print_message("%zu blocks of %zu bytes wait: a refill takes or sorts %u\n", count, size, gone);
  return gone;
}

/* However much waits (36 MiB), a refill sorts a few pieces, and sorting goes on at the next one. */
static void of_what_waits_a_refill_sorts_some(void **state) {
  (void)state;
  enum { SIZE = 288 };
  unsigned gone = sorted_by_a_refill(SIZE, MANY);
  assert_int_equal(owner->arena->classes[class_for(SIZE)].sorts, true);
  assert_true(gone <= (HOLDS_MOST * (BLOCKS_A_HOLD + BATCH_BLOCKS) + BATCH_BLOCKS));
  assert_true(gone > BATCH_BLOCKS);
  hak_purge();
  owner->arena->classes[class_for(SIZE)].sorts = false;
}

/* Of blocks above 1 KiB a refill takes a few at a time. */
static void what_is_large_is_not_sorted(void **state) {
  (void)state;
  enum { SIZE = 2 * KIB };
  assert_true(sorted_by_a_refill(SIZE, MANY / 16) <= BATCH_BLOCKS);
  assert_false(owner->arena->classes[class_for(SIZE)].sorts);
  hak_purge();
}

/* Too many slabs have blocks elsewhere, and would not become empty. */
static void where_a_home_is_shared_none_is_sorted(void **state) {
  (void)state;
  enum { HEAPS = 80 };
  static struct thread_cache *heaps[HEAPS];
  for (int i = 0; i < HEAPS; i++) assert_non_null(heaps[i] = cache_borrow());
  (void)changes_of_slab(MANY);
  send_mixed(MANY);
  unsigned changes = changes_of_slab(MANY);
  print_message("%d blocks, %d heaps: %u changes of slab\n", MANY, HEAPS, changes);
  assert_true(changes > MANY / 2);
  free_many(0, MANY);
  for (int i = 0; i < HEAPS; i++) cache_return(heaps[i]);
}

/* A slab that changed its owner while its blocks were under way: they go on to it in long batches, in whichever order they come. */
static void misrouted_blocks_in_any_order_come_in_long_batches(void **state) {
  (void)state;
  unsigned size_class = class_for(MANY_SIZE), batches = 0, taken = 0, count;
  struct thread_cache *third = cache_borrow();
  assert_non_null(third);
  (void)changes_of_slab(FEW);
  send_mixed(FEW);
  lock_acquire(&owner->arena->lock);
  lock_acquire(&third->arena->lock);
  for (size_t i = 0; i < FEW; i++) {
    struct slab *slab = slab_head(map_slab(many[i]));
    if (map_inbox(many[i]) != &owner->arena->inboxes[size_class] ||
        (uintptr_t)slab / sizeof *slab % 2 != 0)
      continue;
    slabs_disown(owner->arena, slab);
    slab_set_inbox(slab, &third->arena->inboxes[size_class]);
    slabs_own(third->arena, slab);
    if (slab_has_room(slab)) slabs_enlist(third->arena, slab);
  }
  lock_release(&third->arena->lock);
  while (slabs_put_batches(owner->arena, size_class, true)) continue;
  lock_release(&owner->arena->lock);
  lock_acquire(&third->arena->lock);
  for (void *list; (count = remote_take_batch(third->arena, size_class, &list)) > 0;
       taken += count) {
    slabs_put_list(third->arena, size_class, list, true);
    batches++;
  }
  lock_release(&third->arena->lock);
  superslab_settle();
  print_message("%u strays in %u batches\n", taken, batches);
  assert_true(taken > FEW / 4);
  assert_true(batches < taken / 16);
  cache_return(third);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(many_blocks_come_slab_by_slab),
      cmocka_unit_test(a_class_of_which_little_waits_is_not_sorted),
      cmocka_unit_test(of_what_waits_a_refill_sorts_some),
      cmocka_unit_test(what_is_large_is_not_sorted),
      cmocka_unit_test(where_a_home_is_shared_none_is_sorted),
      cmocka_unit_test(misrouted_blocks_in_any_order_come_in_long_batches),
  };
  return cmocka_run_group_tests_name("blocks in order", tests, start, end);
}
