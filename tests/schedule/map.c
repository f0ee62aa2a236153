/* map.c - the address map in two levels: src/superslab/map.c and its look-ups in superslab.h under all schedules.
 *
 * Whatever the order: an entry that was made is found from then on by its thread and by who heard of it, also where two threads made
 * the leaf; a look-up finds nothing, or a descriptor that is filled in; of two that claim a unit one gets it, and sees what
 * was written to the block by the thread that freed it.
 */
#include <string.h>

#include "superslab/map.h"
#include "world.h"

enum { FAR = 1, LEAVES = 2 };

static struct superslab descriptors[2];
static struct map_leaf leaves[LEAVES];
static bool leaf_given[LEAVES], leaf_lost[LEAVES];
static _Atomic uint32_t told;
static unsigned claimed[SCHEDULE_THREADS];

/* Two units in one 4 GiB, of which the map has no leaf. Addresses alone. */
static char *unit(unsigned number) {
  return (char *)((UINT64_C(0x123) << LEAF_SHIFT) + ((uintptr_t)(number + 1) << UNIT_SHIFT));
}

void *os_map_guarded(size_t bytes) {
  unsigned mine = schedule_thread() < 1 ? 0 : 1; /* the kernel gives each call its own */
  SCHEDULE_CHECK(bytes == sizeof leaves[0] && !leaf_given[mine]);
  leaf_given[mine] = true;
  return &leaves[mine];
}

bool os_unmap_guarded(void *address, size_t bytes) {
  (void)bytes;
  leaf_lost[address == &leaves[1]] = true;
  return true;
}

/* --- steps of a thread ------------------------------------------------------------------------------------- */

static void enter(unsigned number) {
  descriptors[number].huge_units = number + 1;
  descriptors[number].base = unit(number);
  SCHEDULE_CHECK(map_set(unit(number), 1, &descriptors[number]));
  SCHEDULE_CHECK(map_superslab(unit(number)) == &descriptors[number]);
}

static void enter_0(void) { enter(0); }
static void enter_1(void) { enter(1); }

static void enter_and_tell(void) {
  enter(0);
  map_set_inbox(unit(0), 1, (struct inbox *)(void *)&descriptors[0]);
  atomic_store_explicit(&told, 1, memory_order_release);
}

/* A guess at an address: nothing, or a descriptor that is filled in. */
static void look_up(void) {
  const struct superslab *found = map_superslab(unit(0));
  SCHEDULE_CHECK(found == NULL ||
                 (found == &descriptors[0] && found->huge_units == 1 && found->base == unit(0)));
  const struct superslab *other = map_superslab(unit(1));
  SCHEDULE_CHECK(other == NULL || (other == &descriptors[1] && other->huge_units == 2));
}

/* Who got a pointer from the allocating thread by the program's own means finds its block. */
static void look_up_when_told(void) {
  if (atomic_load_explicit(&told, memory_order_acquire) == 0) return;
  SCHEDULE_CHECK(map_superslab(unit(0)) == &descriptors[0]);
  SCHEDULE_CHECK(map_inbox(unit(0)) == (struct inbox *)(void *)&descriptors[0]);
}

/* huge.c: the winner alone looks at the descriptor, writes to it, and enters it again. */
static void claim(void) {
  if (!map_claim(unit(0), &descriptors[0])) return;
  descriptors[0].huge_usable++;
  claimed[schedule_thread()] = 1;
}

static void claim_and_enter_again(void) {
  if (!map_claim(unit(0), &descriptors[0])) return;
  descriptors[0].huge_usable++;
  map_set(unit(0), 1, &descriptors[0]);
}

static void clear_and_enter(void) {
  map_clear(unit(1), 1);
  enter(1);
}

/* --- before and after -------------------------------------------------------------------------------------- */

static void start(void) {
  atomic_store_explicit(&map.root[(uintptr_t)unit(0) >> LEAF_SHIFT], 0, memory_order_relaxed);
  for (unsigned i = 0; i < LEAVES; i++) {
    leaf_given[i] = leaf_lost[i] = false;
    for (unsigned number = 0; number < 2; number++) {
      atomic_store_explicit(&leaves[i].superslabs[number + 1], NULL, memory_order_relaxed);
      atomic_store_explicit(&leaves[i].inboxes[(number + 1) << (UNIT_SHIFT - SLICE_SHIFT)], NULL,
                            memory_order_relaxed);
    }
  }
  memset((void *)descriptors, 0, sizeof descriptors);
  memset(claimed, 0, sizeof claimed);
  atomic_store_explicit(&told, 0, memory_order_relaxed);
}

static void start_entered(void) {
  start();
  enter(0);
}

static void start_both(void) {
  start_entered();
  enter(1);
}

static void is_found(unsigned number) {
  SCHEDULE_CHECK(map_superslab(unit(number)) == &descriptors[number]);
}

static void one_leaf_is_left(void) {
  unsigned left = 0;
  for (unsigned i = 0; i < LEAVES; i++) left += leaf_given[i] && !leaf_lost[i];
  SCHEDULE_CHECK(left == 1);
  for (unsigned i = 0; i < LEAF_SLICES; i += LEAF_SLICES / 8)
    SCHEDULE_CHECK(atomic_load_explicit(&map.none.inboxes[i], memory_order_relaxed) == NULL);
}

static void end_0(void) {
  is_found(0);
  one_leaf_is_left();
}
static void end_both(void) {
  is_found(1);
  end_0();
}
static void end_one_claimed(void) {
  SCHEDULE_CHECK(claimed[0] + claimed[1] == 1);
  SCHEDULE_CHECK(map_superslab(unit(0)) == NULL);
  SCHEDULE_CHECK(descriptors[0].huge_usable == 1);
}
static void end_claimed_in_turn(void) {
  SCHEDULE_CHECK(descriptors[0].huge_usable >= 1 && descriptors[0].huge_usable <= 2);
  end_0();
}

static const struct schedule_case cases[] = {
    {.name = "two_make_the_leaf",
     .start = start,
     .body = {enter_0, enter_1},
     .end = end_both,
     .stale = 3},
    {.name = "look_up", .start = start, .body = {enter_0, look_up}, .end = end_0, .stale = 4},
    {.name = "look_up_when_told",
     .start = start,
     .body = {enter_and_tell, look_up_when_told},
     .end = end_0,
     .stale = 4},
    {.name = "two_claim",
     .start = start_entered,
     .body = {claim, claim},
     .end = end_one_claimed,
     .stale = 3},
    {.name = "claim_in_turn",
     .start = start_entered,
     .body = {claim_and_enter_again, claim_and_enter_again},
     .end = end_claimed_in_turn,
     .stale = 3},
    {.name = "clear_beside",
     .start = start_both,
     .body = {clear_and_enter, claim_and_enter_again},
     .end = end_both,
     .stale = 3},
    {.name = "two_make_one_looks",
     .start = start,
     .body = {enter_0, enter_1, look_up},
     .end = end_both,
     .stale = 3},
    {.name = NULL}};

static const struct schedule_mutant mutants[] = {
    {"two_make_the_leaf", "need_leaf", "compare", FAULT_TORN, "not so"},
    {"look_up", "set_units", "store", FAULT_RELAXED, "race"},
    {"look_up", "map_superslab", "load", FAULT_RELAXED, "race"},
    {"two_claim", "map_claim", "compare", FAULT_TORN, "race"},
    {"two_claim", "map_claim", "compare", FAULT_UNCOMPARED, "race"},
    {"claim_in_turn", "map_claim", "compare", FAULT_RELAXED, "race"},
    {"claim_in_turn", "set_units", "store", FAULT_RELAXED, "race"},
    {.in_case = NULL}};

int main(int count, char **arguments) { return schedule_main(count, arguments, cases, mutants); }
