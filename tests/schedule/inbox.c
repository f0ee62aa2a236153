/* inbox.c - batches of blocks on their way home: src/heap/remote.c under all schedules.
 *
 * Senders push batches of one block without a lock; takers hold the heap's lock. Whatever the order: each block is in one place,
 * none lost, none twice; what was written to a block before it was freed is seen by who takes it; inbox_bytes is how many bytes
 * wait. (STEAL_BATCHES is 1 here: CMakeLists.txt.)
 */
#include <string.h>

#include "heap/homes.h"
#include "heap/remote.h"
#include "world.h"

enum {
  BLOCKS = 4,
  SMALL = 3 /* 64 bytes */
};

static struct arena heaps[2];
static unsigned size_class;
static unsigned taken[SCHEDULE_THREADS][BLOCKS]; /* by each thread: it has them still */

uint64_t heap_active(void) { return 2; }
unsigned homes_count(void) { return 2; }

static char *block(unsigned number) {
  return world_units[0] + (size_t)number * class_size(size_class);
}

static unsigned number_of(const void *one) {
  return (unsigned)((size_t)((const char *)one - world_units[0]) / class_size(size_class));
}

/* What the program keeps in a block; not the first two words. */
static unsigned *content(unsigned number) { return (unsigned *)(void *)(block(number) + 16); }

/* --- steps of a thread -------------------------------------------------------------------------------- */

static void send_to(unsigned heap, unsigned number) {
  *content(number) = 100 + number;
  taken[schedule_thread()][number] = 0;
  remote_free_now(&heaps[heap].inboxes[size_class], block(number));
}

static void use(void *list, unsigned count) {
  unsigned mine = (unsigned)schedule_thread();
  for (; count > 0; count--) {
    SCHEDULE_CHECK(list != NULL);
    void *next = link_next(list);
    unsigned number = number_of(list);
    SCHEDULE_CHECK(number < BLOCKS && *content(number) == 100 + number);
    SCHEDULE_CHECK(taken[mine][number]++ == 0);
    memset(block(number), 0xee, 16); /* the program's, which may overwrite links */
    schedule_plain_write(block(number), 16);
    *content(number) = 1;
    list = next;
  }
  SCHEDULE_CHECK(list == NULL);
}

static void take_from(unsigned heap) {
  void *list = NULL;
  lock_acquire(&heaps[heap].lock);
  unsigned count = remote_take_batch(&heaps[heap], size_class, &list);
  lock_release(&heaps[heap].lock);
  use(list, count);
}

/* As adopt.c does: its own lock is held, the other one only tried. */
static void steal_from(unsigned heap, unsigned from) {
  void *list = NULL;
  lock_acquire(&heaps[heap].lock);
  if (heaps[heap].classes[size_class].drained == NULL && lock_try(&heaps[from].lock)) {
    (void)remote_steal(&heaps[heap], &heaps[from], size_class);
    lock_release(&heaps[from].lock);
  }
  unsigned count = remote_take_batch(&heaps[heap], size_class, &list);
  lock_release(&heaps[heap].lock);
  use(list, count);
}

/* --- before and after --------------------------------------------------------------------------------- */

static void start_with(unsigned class_now, unsigned waiting) {
  size_class = class_now;
  world_enter_unit(size_class);
  memset((void *)heaps, 0, sizeof heaps);
  memset(taken, 0, sizeof taken);
  memset(world_units[0], 0, BLOCKS * 64UL);
  for (unsigned i = 0; i < waiting; i++) {
    *content(i) = 100 + i;
    remote_free_now(&heaps[0].inboxes[size_class], block(i));
  }
}

static void start_empty(void) { start_with(SMALL, 0); }
static void start_with_one(void) { start_with(SMALL, 1); }
static void start_with_two(void) { start_with(SMALL, 2); }

/* Of a stack of batches; marks the blocks in `found`. */
static uint64_t blocks_in(struct batch *batch, unsigned found[BLOCKS]) {
  uint64_t count = 0;
  for (; batch != NULL && count <= BLOCKS; count++) {
    unsigned number = number_of(batch);
    SCHEDULE_CHECK(number < BLOCKS);
    SCHEDULE_CHECK(batch->next_and_count >> BATCH_COUNT_SHIFT == 1 && batch->rest == NULL);
    found[number]++;
    batch = (struct batch *)(uintptr_t)(batch->next_and_count &
                                        ((UINT64_C(1) << BATCH_COUNT_SHIFT) - 1));
  }
  SCHEDULE_CHECK(batch == NULL);
  return count;
}

static void one_place_each(unsigned in_use) {
  unsigned found[BLOCKS] = {0};
  for (unsigned heap = 0; heap < 2; heap++) {
    uint64_t blocks = blocks_in(heaps[heap].classes[size_class].drained, found) +
                      blocks_in(atomic_load_explicit(&heaps[heap].inboxes[size_class].first,
                                                     memory_order_relaxed),
                                found);
    int64_t bytes = atomic_load_explicit(&heaps[heap].inbox_bytes, memory_order_relaxed);
    SCHEDULE_CHECK(bytes == (int64_t)(blocks * class_size(size_class)));
  }
  for (unsigned i = 0; i < in_use; i++) {
    for (unsigned thread = 0; thread < SCHEDULE_THREADS; thread++) found[i] += taken[thread][i];
    SCHEDULE_CHECK(found[i] == 1);
  }
}

static void end_2(void) { one_place_each(2); }
static void end_3(void) { one_place_each(3); }

/* --- bodies ------------------------------------------------------------------------------------------- */

static void send_0(void) { send_to(0, 0); }
static void send_1(void) { send_to(0, 1); }
static void send_2(void) { send_to(0, 2); }
static void send_0_1(void) {
  send_to(0, 0);
  send_to(0, 1);
}
static void take(void) { take_from(0); }
static void take_twice(void) {
  take_from(0);
  take_from(0);
}
/* The case in which a stack with a single pop goes wrong (ABA): what a sender has seen as head goes and comes back. */
static void take_and_send_again(void) {
  take_from(0);
  if (taken[schedule_thread()][0] > 0) send_to(0, 0);
}
static void steal(void) { steal_from(1, 0); }
static void steal_twice(void) {
  steal_from(1, 0);
  steal_from(1, 0);
}

static const struct schedule_case cases[] = {
    {.name = "two_send",
     .start = start_empty,
     .body = {send_0, send_1},
     .end = end_2,
     .stale = 2,
     .spurious = 1},
    {.name = "send_and_take",
     .start = start_empty,
     .body = {send_0_1, take_twice},
     .end = end_2,
     .stale = 2,
     .spurious = 1},
    {.name = "head_comes_back",
     .start = start_with_one,
     .body = {send_1, take_and_send_again},
     .end = end_2,
     .stale = 2,
     .spurious = 1},
    {.name = "two_take", .start = start_with_two, .body = {take, take}, .end = end_2, .stale = 2},
    {.name = "take_and_steal",
     .start = start_with_two,
     .body = {take, steal},
     .end = end_2,
     .stale = 2},
    {.name = "two_send_one_takes",
     .start = start_empty,
     .body = {send_0, send_1, take_twice},
     .end = end_2,
     .stale = 1,
     .slow = true},
    {.name = "send_take_steal",
     .start = start_with_two,
     .body = {send_2, take_twice, steal_twice},
     .end = end_3,
     .preemptions = 2,
     .slow = true},
    {.name = NULL}};

static const struct schedule_mutant mutants[] = {
    {"two_send", "push", "compare", FAULT_TORN, "not so: bytes"},
    {"two_send", "count_inbox", "add", FAULT_TORN, "not so: bytes"},
    {"send_and_take", "push", "compare", FAULT_RELAXED, "race"},
    {"send_and_take", "take_inbox", "exchange", FAULT_RELAXED, "race"},
    {"send_and_take", "take_inbox", "exchange", FAULT_TORN, "race"},
    {"two_take", "lock_acquire", "compare", FAULT_DROPPED, "race"},
    {"two_take", "lock_release", "compare", FAULT_RELAXED, "race"},
    {"take_and_steal", "change", "compare", FAULT_DROPPED, "race"},
    {.in_case = NULL}};

int main(int count, char **arguments) { return schedule_main(count, arguments, cases, mutants); }
