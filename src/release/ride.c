/* ride.c - the engine where there is no helper thread: bounded parts of a look in the program's own calls. */
#include "heap/engine.h"
#include "heap/homes.h"
#include "policy/options.h"
#include "release/background.h"
#include "release/look.h"
#include "release/marks.h"
#include "superslab/unit.h"

/* What one call of the program does of it: 1 MiB is 60 us where the pages lie side by side, 300 us where they do not. Looking
 * alone is two cache misses a slab. */
#define RIDE_BYTES (1 * MIB)
enum { RIDE_BATCHES = 8 };

/* A program that goes on with little may find all it needs in its bins, and would never come here. So its heap is veiled while
 * memory waits, for so many calls of malloc a millisecond. With 10 ns each that is 0.1% of the time of a busy program. One that
 * has used them up and goes on with little calls each RIDE_CALL_BYTES. */
enum { VEILED_CALLS_A_MS = 100, VEILED_MOST_MS = 10000 };

enum { RIDE_SPANS = CLASS_COUNT, RIDE_OTHERS, RIDE_SLICES, RIDE_DONE };

static struct dirty_cursor ride_cursor; /* under engine_pass_lock */

/* A piece of the look at a class; false: it is done. Not before the next round does it begin anew, though the program may have taken
 * the slab at which it would go on: two looks are to be half the decay time apart. */
static bool ride_class(struct heap *heap, unsigned size_class, bool *begun, struct pass *pass) {
  if (!*begun && !look_start(heap, size_class)) return false;
  *begun = look_at_slabs(heap, &heap->classes[size_class], pass);
  return *begun;
}

/* --- heaps without a thread ---------------------------------------------------------------------------------------- */

/* Nobody else looks at a parked heap, nor at a home whose threads sleep, into which others have freed much. Of all threads that ride one does
 * so, twice in the decay time. */
static bool is_left_alone(const struct heap *heap) {
  uint8_t state = atomic_load_explicit(&heap->state, memory_order_relaxed);
  if (state == HEAP_PARKED) return !heap_is_bare(heap);
  int64_t inbox = atomic_load_explicit(&heap->inbox_bytes, memory_order_relaxed);
  return state == HEAP_ACTIVE && inbox > 0 && engine_inbox_is_due(heap, (size_t)inbox);
}

static struct heap *next_parked(struct heap *from, uint64_t now) {
  uint64_t half = (uint64_t)option_value(WARM_POOL_DECAY_MS) / 2;
  while (from != NULL && (now - from->looked_ms < half || !is_left_alone(from))) from = from->next;
  return from;
}

static void turn_to_parked(struct heap *heap, struct heap *from, uint64_t now) {
  struct heap *other = next_parked(from, now);
  heap->ride_other = other;
  heap->ride_other_step = 0;
  heap->ride_other_begun = false;
  if (other == NULL) return;
  other->looked_ms = now;
  heap->ride_other_tidies = look_begin(other);
}

/* One piece of work for one of them; false: there are no more. Should a thread take the heap meanwhile, all this is what the
 * helper does with a thread's heap. */
static bool ride_parked(struct heap *heap, struct pass *pass, uint64_t now) {
  struct heap *other = heap->ride_other;
  if (other == NULL) return false;
  if (heap->ride_other_tidies) {
    while (heap->ride_other_step < CLASS_COUNT) {
      if (look_tidy(other, heap->ride_other_step, pass)) return true;
      heap->ride_other_step++;
    }
    heap->ride_other_tidies = false;
    heap->ride_other_step = 0;
    look_end(other, pass);
  }
  while (heap->ride_other_step < CLASS_COUNT) {
    if (ride_class(other, heap->ride_other_step, &heap->ride_other_begun, pass)) return true;
    heap->ride_other_step++;
  }
  look_at_spans(other, pass);
  turn_to_parked(heap, other->next, now);
  return true;
}

/* --- a round ------------------------------------------------------------------------------------------------------- */

static void ride_step(struct heap *heap, struct pass *pass, uint64_t now) {
  if (heap->ride_step < CLASS_COUNT) {
    if (heap->ride_tidies && look_tidy(heap->home, heap->ride_step, pass)) return;
    if (ride_class(heap->home, heap->ride_step, &heap->ride_begun, pass)) return;
  } else if (heap->ride_step == RIDE_SPANS) {
    if (heap->ride_tidies) look_end(heap->home, pass);
    heap->ride_tidies = false;
    look_at_spans(heap, pass);
    turn_to_parked(heap, heap_first(), now);
  } else if (heap->ride_step == RIDE_OTHERS) {
    if (ride_parked(heap, pass, now)) return;
    ride_cursor = (struct dirty_cursor){0};
  } else if (look_at_some_slices(&ride_cursor, pass)) {
    return;
  }
  heap->ride_step++;
}

/* The next round begins then. */
static void set_round(struct heap *heap, uint64_t from_ms) {
  heap->ride_step = 0;
  heap->ride_begun = heap->ride_tidies = false;
  heap->ride_other = NULL;
  heap->ride_young = 0;
  heap->ride_from_ms = from_ms;
}

/* Threads that share a home free into its inbox, which the look empties first. One of them looks in each half of the decay time: the looks of
 * all together would take memory for old that was in use just now. The others ride on until they find nothing themselves. */
static void begin_round(struct heap *heap, uint64_t now) {
  struct heap *home = heap->home;
  uint64_t half = (uint64_t)option_value(WARM_POOL_DECAY_MS) / 2;
  lock_acquire(&home->lock);
  heap->ride_free = home->free_bytes;
  lock_release(&home->lock);
  if (homes_is_shared(heap) && now - home->looked_ms < half) {
    heap->ride_young = RELEASE_LEFT_OVER + 1;
    heap->ride_step = RIDE_SPANS;
    return;
  }
  home->looked_ms = now;
  heap->ride_tidies = look_begin(home);
}

/* The whole heap has been looked at, those without a thread, and what lies below the heaps. */
static void ride_end(struct heap *heap, uint64_t now) {
  heap->ride_young += unit_age();
  heap->rides = heap->ride_young > RELEASE_LEFT_OVER;
  struct heap *home = heap->home;
  lock_acquire(&home->lock);
  /* Of a class that this round had passed by then. */
  bool grew =
      home->free_bytes > heap->ride_free && engine_is_worth(home->free_bytes - heap->ride_free);
  heap->rides |= grew;
  if (!heap->rides) engine_set_mark(home);
  lock_release(&home->lock);
  set_round(heap, now + (uint64_t)option_value(WARM_POOL_DECAY_MS) / 2);
  if (!heap->rides) release_mark_below();
}

static void ride(struct heap *heap, uint64_t now) {
  struct pass pass = {.looks = LOOKS};
  if (heap->ride_step == 0 && !heap->ride_begun && !heap->ride_tidies) begin_round(heap, now);
  for (unsigned i = 0;
       i < RIDE_BATCHES && pass.given < RIDE_BYTES && heap->ride_step < RIDE_DONE;) {
    unsigned before = heap->ride_step;
    ride_step(heap, &pass, now);
    if (heap->ride_step == before || before >= CLASS_COUNT)
      i++; /* a class without slabs is nothing */
  }
  if (pass.split) pass.young += UNIT_BYTES;
  heap->ride_young += pass.young;
  if (heap->ride_step == RIDE_DONE) ride_end(heap, now);
}

/* A busy program comes here hundreds of times in one tick of the clock; looking at it each time took 10% of the instructions of
 * `fragmentation`. Of calls within one tick the 1st, 2nd, 4th, 8th look at the clock, then every sixteenth. One that comes rarely looks each time. */
enum { RIDE_SKIPS_MOST = 15 }; /* a mask, too */

/* They add up for as long as a round waits. */
static void allow_veiled_calls(struct heap *heap, uint64_t elapsed_ms) {
  uint64_t half = (uint64_t)option_value(WARM_POOL_DECAY_MS) / 2;
  uint64_t longest = half < VEILED_MOST_MS ? half : VEILED_MOST_MS;
  uint64_t ms = elapsed_ms < longest ? elapsed_ms : longest;
  uint64_t calls = heap->veiled_calls + VEILED_CALLS_A_MS * ms, most = VEILED_CALLS_A_MS * longest;
  heap->veiled_calls = (uint32_t)(calls < most ? calls : most);
}

static uint64_t look_at_clock(struct heap *heap) {
  uint64_t now = os_clock_ms();
  allow_veiled_calls(heap, now - heap->ride_looked_ms);
  bool busy = now == heap->ride_looked_ms;
  /* 0, 1, 3, 7, 15, 15 */
  heap->ride_skipped = busy ? (heap->ride_skipped * 2U + 1) & RIDE_SKIPS_MOST : 0;
  heap->ride_skips = heap->ride_skipped;
  heap->ride_looked_ms = now;
  return now;
}

void release_ride(void) {
  struct heap *mine = heap_if_any();
  if (mine == NULL) return;
  bool begins = !mine->rides;
  if (begins) set_round(mine, mine->ride_from_ms);
  mine->rides = true;
  uint64_t now = look_at_clock(mine);
  if (now >= mine->ride_from_ms && lock_try(&engine_pass_lock)) {
    ride(mine, now);
    lock_release(&engine_pass_lock);
  }
  bool ends_veil = malloc_thread.heap != mine && mine->veiled_calls == 0;
  bool starts_without = begins && mine->veiled_calls == 0;
  heap_veil(mine, mine->rides && mine->veiled_calls > 0);
  if (mine->rides && (ends_veil || starts_without)) heap_call_soon(RIDE_CALL_BYTES);
}
