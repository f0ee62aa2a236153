/* huge.c - a Huge block that two threads free: src/superslab/huge.c, map.c and descriptor.c
 * under all schedules.
 *
 * That the program frees twice is its error, and then one of them is told. Whatever the order: the units are released once, and so is
 * the descriptor; a third thread's block, which may get the same descriptor, stays what it is.
 */
#include <string.h>

#include "observe/counters.h"
#include "os/lock.h"
#include "policy/options.h"
#include "superslab/dense.h"
#include "superslab/descriptor.h"
#include "superslab/huge_cut.h"
#include "superslab/map.h"
#include "superslab/unit.h"
#include "world.h"

static struct superslab *block; /* of world_units[0], as it was when the two threads got it */
static unsigned released[WORLD_UNITS], freed[SCHEDULE_THREADS], told[SCHEDULE_THREADS];
static bool third_has;

struct lock superslab_lock;
int32_t option_values[OPTION_COUNT];
_Atomic uint64_t counters_supplied[COUNTED_CLASSES][SUPPLIES];

/* --- what huge.c calls --------------------------------------------------------------------------------------- */

/* The third thread's block lies in a unit of its own, so that no late free can mean it. */
struct unit_run unit_acquire_behind(size_t ahead, size_t units, size_t alignment, size_t bare) {
  (void)alignment;
  SCHEDULE_CHECK(ahead == 0 && units == 1 && bare == 0);
  unsigned unit = schedule_thread() < 0 ? 0 : 1;
  return (struct unit_run){.base = world_units[unit], .zeroed = true, .used = units};
}

void unit_release(char *base, size_t units, bool huge_pages, unsigned node) {
  (void)huge_pages, (void)node;
  unsigned unit = (unsigned)((size_t)(base - world_units[0]) >> UNIT_SHIFT);
  SCHEDULE_CHECK(units == 1 && unit < WORLD_UNITS && released[unit]++ == 0);
}

/* There is no limit of the address space. */
void huge_cut(struct superslab *superslab, bool from_os) { (void)superslab, (void)from_os; }
bool huge_mend(struct superslab *superslab) { return superslab->huge_cuts == 0; }
struct huge_rest huge_mend_for_pool(struct superslab *superslab) {
  (void)superslab;
  return (struct huge_rest){0};
}
void huge_rest_release(struct huge_rest rest) { SCHEDULE_CHECK(rest.base == NULL); }

/* Too few groups for any to lose its pages. */
bool os_decommit(void *address, size_t bytes) {
  (void)bytes;
  SCHEDULE_CHECK(address == NULL);
  return false;
}

void unit_settle(void) {}
struct unit_run unit_reserve(size_t units, size_t empty, size_t bare) {
  (void)units, (void)empty, (void)bare;
  return (struct unit_run){0};
}
bool unit_extend(char *end, size_t count, size_t bare, unsigned node) {
  (void)end, (void)count, (void)bare, (void)node;
  return false;
}
void unit_account(ptrdiff_t units) { (void)units; }
enum unit_move unit_move(char *from, char *to) {
  (void)from, (void)to;
  return UNIT_STAYS;
}
bool unit_advise_huge(char *base, size_t units) {
  (void)base, (void)units;
  return true;
}
enum dense_answer dense_expected(enum dense_kind of, struct superslab *superslab) {
  (void)of, (void)superslab;
  return DENSE_NO;
}
void dense_last_check(struct superslab *superslab) { (void)superslab; }
void dense_forget(struct superslab *superslab) { (void)superslab; }

/* --- steps of a thread --------------------------------------------------------------------------------------- */

/* front/block.c and front.c: the look, then the free by what was seen. */
static void free_block(void) {
  unsigned mine = (unsigned)schedule_thread();
  struct superslab *found = map_superslab(world_units[0]);
  if (found == NULL || found->huge_units == 0 || found->base != world_units[0]) {
    told[mine] = 1;
    return;
  }
  if (huge_release(found, world_units[0])) freed[mine] = 1;
  else told[mine] = 1;
}

static void third(void) {
  bool zeroed;
  struct superslab *mine = huge_acquire(UNIT_BYTES, UNIT_BYTES, &zeroed);
  SCHEDULE_CHECK(mine != NULL && mine->base == world_units[1]);
  SCHEDULE_CHECK(map_superslab(world_units[1]) == mine && mine->huge_units == 1);
  third_has = true;
}

/* --- before and after ---------------------------------------------------------------------------------------- */

static void start(void) {
  bool zeroed;
  world_reset_metadata();
  descriptors_forget();
  memset((void *)&superslab_lock, 0, sizeof superslab_lock);
  memset(released, 0, sizeof released);
  memset(freed, 0, sizeof freed);
  memset(told, 0, sizeof told);
  third_has = false;
  block = huge_acquire(UNIT_BYTES, UNIT_BYTES, &zeroed);
  SCHEDULE_CHECK(block != NULL);
  map_clear(world_units[1], 1);
  /* A late look at a descriptor that is another block's by now: the claim decides, whatever was seen. */
  schedule_excuse_races(block, sizeof *block);
}

static void end(void) {
  SCHEDULE_CHECK(freed[0] + freed[1] == 1 && told[0] + told[1] == 1);
  SCHEDULE_CHECK(released[0] == 1 && released[1] == 0);
  SCHEDULE_CHECK(map_superslab(world_units[0]) == NULL);
  if (!third_has) return;
  const struct superslab *other = map_superslab(world_units[1]);
  SCHEDULE_CHECK(other != NULL && other->base == world_units[1] && other->huge_units == 1);
}

static const struct schedule_case cases[] = {
    {.name = "two_free", .start = start, .body = {free_block, free_block}, .end = end, .stale = 2},
    {.name = "descriptor_is_reused",
     .start = start,
     .body = {free_block, free_block, third},
     .end = end,
     .preemptions = 3},
    {.name = "descriptor_is_reused.all",
     .start = start,
     .body = {free_block, free_block, third},
     .end = end,
     .slow = true},
    {.name = NULL}};

static const struct schedule_mutant mutants[] = {
    {"two_free", "map_claim", "compare", FAULT_TORN, "race"},
    {"two_free", "map_claim", "compare", FAULT_UNCOMPARED, "race"},
    {"two_free", "map_claim", "compare", FAULT_DROPPED, "race"},
    {.in_case = NULL}};

int main(int count, char **arguments) { return schedule_main(count, arguments, cases, mutants); }
