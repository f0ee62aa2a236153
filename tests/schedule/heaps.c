/* heaps.c - heaps pass from thread to thread, and others adopt from those that are parked: src/heap/heap.c and adopt.c under all
 * schedules.
 *
 * Whatever the order: a heap has one thread, which sees what the one before it left in the bins; who adopts touches an arena
 * only under its lock; the list of all heaps leads to each one that was entered, filled in. Borrowed heaps stand for
 * those of threads, which are taken and parked by the same functions.
 */
#include <string.h>

#include "heap/adopt.h"
#include "heap/fork.h"
#include "heap/heap.h"
#include "heap/purger.h"
#include "heap/samples.h"
#include "observe/counters.h"
#include "observe/report.h"
#include "os/libc.h"
#include "policy/container.h"
#include "policy/options.h"
#include "superslab/unit.h"
#include "world.h"

enum { CLASS = 3, MARK = 7 };

/* heap.c's own. */
extern struct lock heap_list_lock;
extern struct arena *of_first_node, *guests; /* parked.c */
extern bool first_heap_given;
extern struct heap first_heap;
extern _Atomic uint64_t active;

int32_t option_values[OPTION_COUNT];
static struct heap mine[2]; /* of threads that adopt, or are entered into the list */
static unsigned used;

size_t span_cache_flush(struct span_cache *cache) {
  (void)cache;
  return 0;
}
void span_cache_settle(struct span_cache *cache) { (void)cache; }
void span_release_soon(struct slab *span) { (void)span; }
bool libc_is_reachable(void) { return true; }
void report_start(struct report *line) { (void)line; }
void report_text(struct report *line, const char *text) { (void)line, (void)text; }
void report_end(struct report *line) { (void)line; }
void fork_register(void) {}
void options_read(void) {}
void os_ask_at_start(void) {}
int os_process(void) { return 1; }
unsigned long os_process_threads(void) { return 1; }
unsigned os_processors(void) { return 1; }
unsigned container_processors(struct container *container) {
  (void)container;
  return 0;
}
_Atomic(os_beside_function *) os_beside_program;
size_t unit_prewarm(size_t units) { return units; }
void superslab_settle(void) {}
bool superslab_is_unsettled(void) { return false; }
size_t unit_warm_most(void) { return 0; }
struct lock superslab_lock;
_Atomic uint64_t counters_supplied[COUNTED_CLASSES][SUPPLIES];
struct arena heap_samples;
bool heap_samples_lost;
void os_wake(_Atomic uint32_t *word) { (void)word; }

/* --- steps of a thread --------------------------------------------------------------------------------------- */

static void borrow(void) {
  struct thread_cache *heap = cache_borrow();
  SCHEDULE_CHECK(heap != NULL);
  SCHEDULE_CHECK(atomic_load_explicit(&arena_beside(heap)->state, memory_order_relaxed) ==
                 ARENA_ACTIVE);
  heap->bins[CLASS].room++; /* without a lock: the heap is this thread's */
  heap->uses++;
  lock_acquire(&heap->arena->lock);
  heap->arena->classes[CLASS].drained = NULL; /* as a refill does */
  lock_release(&heap->arena->lock);
  cache_return(heap);
}

static void borrow_twice(void) {
  borrow();
  borrow();
}

static void adopt(void) {
  struct arena *arena = &mine[0].arena;
  lock_acquire(&arena->lock);
  (void)adopt_slabs(arena, CLASS, false);
  lock_release(&arena->lock);
}

static void enter(struct arena *arena) {
  arena->peak_committed = MARK;
  lock_init(&arena->lock);
  arena_list(arena);
}
static void enter_0(void) { enter(&mine[0].arena); }
static void enter_1(void) { enter(&mine[1].arena); }

static void walk(void) {
  for (struct arena *arena = arena_first(); arena != NULL; arena = arena->next)
    SCHEDULE_CHECK(arena->peak_committed == MARK || arena == &first_heap.arena);
}

/* --- before and after ---------------------------------------------------------------------------------------- */

static void start(void) {
  world_reset_metadata();
  memset((void *)&heap_list_lock, 0, sizeof heap_list_lock);
  memset((void *)&first_heap, 0, sizeof first_heap);
  memset((void *)mine, 0, sizeof mine);
  first_heap_given = false;
  atomic_store_explicit(&heap_started, true, memory_order_relaxed);
  atomic_store_explicit(&arena_all, NULL, memory_order_relaxed);
  heap_fork_child(); /* counts again: there is no heap */
  used = 0;
}

static void start_parked(void) {
  start();
  struct thread_cache *heap = cache_borrow();
  SCHEDULE_CHECK(heap == &first_heap.cache);
  atomic_store_explicit(&heap->arena->classes[CLASS].count, 1, memory_order_relaxed);
  cache_return(heap);
  used = 1;
}

static unsigned parked_in(struct arena *first, bool are_guests) {
  unsigned count = 0;
  for (struct arena *arena = first; arena != NULL && count < 9; arena = arena->next_parked) {
    SCHEDULE_CHECK(arena_state(arena) == ARENA_PARKED);
    SCHEDULE_CHECK(cache_is_guest(cache_beside(arena)) == are_guests);
    SCHEDULE_CHECK(atomic_load_explicit(&arena->users, memory_order_relaxed) == 0);
    count++;
  }
  return count;
}

static unsigned parked_count(void) {
  return parked_in(of_first_node, false) + parked_in(guests, true);
}

static void end(void) {
  uint64_t now_active, now_parked;
  unsigned listed = 0;
  heap_counts(&now_active, &now_parked);
  for (struct arena *heap = arena_first(); heap != NULL && listed < 9; heap = heap->next) listed++;
  SCHEDULE_CHECK(now_active == 0 && now_parked == parked_count() && listed == now_parked);
}

static void end_entered(void) {
  bool found[2] = {false, false};
  for (struct arena *heap = arena_first(); heap != NULL; heap = heap->next)
    found[heap == &mine[1].arena] = true;
  SCHEDULE_CHECK(found[0] && (found[1] || mine[1].arena.peak_committed == 0));
}

static const struct schedule_case cases[] = {
    {.name = "two_enter",
     .start = start,
     .body = {enter_0, enter_1},
     .end = end_entered,
     .stale = 2,
     .spurious = 1},
    {.name = "enter_and_walk",
     .start = start,
     .body = {enter_0, walk},
     .end = end_entered,
     .stale = 2,
     .spurious = 1},
    {.name = "two_borrow",
     .start = start_parked,
     .body = {borrow, borrow},
     .end = end,
     .preemptions = 3},
    {.name = "borrow_new", .start = start, .body = {borrow, borrow}, .end = end, .preemptions = 3},
    {.name = "borrow_and_adopt",
     .start = start_parked,
     .body = {borrow, adopt},
     .end = end,
     .stale = 1},
    {.name = "two_borrow.all",
     .start = start_parked,
     .body = {borrow, borrow},
     .end = end,
     .slow = true},
    {.name = "borrow_twice_and_adopt",
     .start = start_parked,
     .body = {borrow_twice, adopt},
     .end = end,
     .preemptions = 4,
     .slow = true},
    {.name = "two_borrow_one_adopts",
     .start = start_parked,
     .body = {borrow, borrow, adopt},
     .end = end,
     .preemptions = 2,
     .slow = true},
    {.name = NULL}};

static const struct schedule_mutant mutants[] = {
    {"two_enter", "arena_list", "compare", FAULT_TORN, "not so: found"},
    {"enter_and_walk", "arena_list", "compare", FAULT_RELAXED, "race"},
    {"enter_and_walk", "arena_first", "load", FAULT_RELAXED, "race"},
    {"two_borrow", "lock_acquire", "compare", FAULT_RELAXED, "race"},
    {"two_borrow", "lock_acquire", "compare", FAULT_DROPPED, "race"},
    {"two_borrow", "take_cache", "add", FAULT_TORN, "not so: now_active"},
    {"borrow_and_adopt", "change", "compare", FAULT_RELAXED, "race"},
    {.in_case = NULL}};

int main(int count, char **arguments) { return schedule_main(count, arguments, cases, mutants); }
