/* limit.c - see limit.h. */
#include "release/limit.h"

#include "os/file.h"
#include "release/background.h"
#include "release/box.h"
#include "release/release.h"

/* Under purger_limit_lock: the groups, and when they were found. An operator may change limits, or move the process. */
static struct container container;
static uint64_t found_ms;

void limit_note(const struct container *found) {
  bool limited = found->level_count > 0;
  if (atomic_load_explicit(&unit_limited, memory_order_relaxed) != limited)
    atomic_store_explicit(&unit_limited, limited, memory_order_relaxed);
}

static void find_groups(void) {
  uint64_t now = os_clock_ms();
  /* In the child of a fork that left another thread's search half done, purger_limit_due is 0. */
  bool anew = atomic_load_explicit(&purger_limit_due, memory_order_relaxed) == 0;
  if (!anew && found_ms != 0 && now - found_ms < READ_AGAIN_MS) return;
  found_ms = now;
  container_read(&container);
  limit_note(&container);
}

/* Half of what is left, for what the program gets is touched later, and others may take memory, too. Not by less than is taken at
 * once. Without a limit one may be set, or the process be moved: that is looked at whenever twice as much was taken. */
static size_t next_after(uint64_t left, size_t taken) {
  if (left == UINT64_MAX) return 2 * taken;
  return taken + (size_t)(left / 2 > UNIT_BYTES ? left / 2 : UNIT_BYTES);
}

/* --- who reads -------------------------------------------------------------------------------------------------- */

/* Another thread of the program could take the numbers of files that are open here for its own (os/file.h). So the helper reads, which has descriptors
 * to itself, and the thread waits for it: as long as reading takes, and a switch between threads. A helper that does not come in time, or that
 * cannot be had, is not waited for. Nor is any while no limit is known: one that it finds makes the next look due. */
enum { PATIENCE_MS = 4, STEP_MS = 1 };

/* Of purger_limit_due: so much was taken by all. Not 0, which says that all is to be found anew. */
enum { LOOK_NOW = 1 };

enum { NOBODY, ASKED, READS, ANSWERED };
/* ASKED: release, with what is asked for; READS: by the helper, in one step, so that only one of the two reads; ANSWERED: release, with the
 * answer. All others hold purger_limit_lock. */
static _Atomic uint32_t request;
static atomic_bool
    helper_cannot; /* it has no descriptors to itself (kernels before 5.9); relaxed: a hint */
static struct {
  size_t coming;
  struct container_room room;
} asked;

static void read_room(size_t coming) {
  find_groups();
  asked.room = container_room(&container, coming);
}

static uint32_t request_now(void) { return atomic_load_explicit(&request, memory_order_acquire); }

/* From that state. relaxed: what was asked for is this thread's own */
static bool take_back(uint32_t state) {
  return atomic_compare_exchange_strong_explicit(&request, &state, NOBODY, memory_order_relaxed,
                                                 memory_order_relaxed);
}

/* Will nobody answer, although that was the state? acquire: a helper that has ended has answered before, so what it had begun to read is read by
 * now. It is not where a handler of a signal has forked meanwhile, in the child. */
static bool is_lost(uint32_t state) {
  return atomic_load_explicit(&purger_helper, memory_order_acquire) == HELPER_NONE &&
         request_now() == state;
}

/* False: this thread is to read. One that reads is waited for. */
static bool wait_for_answer(void) {
  uint64_t until = os_clock_ms() + PATIENCE_MS;
  for (;;) {
    uint32_t state = request_now();
    if (state == ANSWERED || state == NOBODY) return state == ANSWERED;
    bool ends = is_lost(state) || (state == ASKED && os_clock_ms() >= until);
    if (ends && take_back(state)) return false;
    if (!ends) os_sleep_on(&request, state, STEP_MS);
  }
}

/* With what was asked for when no limit was known. */
static bool helper_is_at_it(void) {
  uint32_t state = request_now();
  return (state == ASKED || state == READS) && !(is_lost(state) && take_back(state));
}

static bool wakes_helper(size_t coming) {
  asked.coming = coming;
  atomic_store_explicit(&request, ASKED, memory_order_release);
  return release_ring() || !take_back(ASKED);
}

static bool by_helper(size_t coming, bool *waits) {
  if (atomic_load_explicit(&purger_limit_due, memory_order_relaxed) == 0) found_ms = 0;
  *waits = (found_ms != 0 && asked.room.tight != UINT64_MAX) || box_is_on();
  if (!*waits) /* before the helper may answer; relaxed, as all of it: a hint */
    atomic_store_explicit(&purger_limit_due, next_after(UINT64_MAX, unit_taken()),
                          memory_order_relaxed);
  return wakes_helper(coming) && (!*waits || wait_for_answer());
}

/* `room` is what the thread goes by. False: the helper is at it. */
static bool room_for(size_t coming, struct container_room *room) {
  bool waits = true;
  if (helper_is_at_it()) return false;
  if (atomic_load_explicit(&helper_cannot, memory_order_relaxed) || os_files_are_safe() ||
      !by_helper(coming, &waits))
    read_room(coming);
  else if (!waits) return false;
  *room = asked.room;
  return true;
}

void limit_serve(void) {
  if (atomic_load_explicit(&request, memory_order_relaxed) != ASKED) return;
  if (!os_files_of_own()) {
    atomic_store_explicit(&helper_cannot, true, memory_order_relaxed);
    if (take_back(ASKED)) os_wake(&request);
    return;
  }
  uint32_t state = ASKED;
  if (!atomic_compare_exchange_strong_explicit(&request, &state, READS, memory_order_acquire,
                                               memory_order_relaxed))
    return;
  read_room(asked.coming);
  if (asked.room.tight != UINT64_MAX)
    atomic_store_explicit(&purger_limit_due, LOOK_NOW, memory_order_relaxed);
  atomic_store_explicit(&request, ANSWERED, memory_order_release);
  os_wake(&request);
}

/* --- what is done about it --------------------------------------------------------------------------------------- */

static void check_room(size_t coming) {
  struct container_room room;
  if (!room_for(coming, &room)) return;
  uint64_t left = room.tight;
  if (left == 0) {
    (void)release_purge();
    (void)room_for(coming, &room);
    /* Where all of it lives, another purge helps only when much was freed again. */
    left = room.tight > 0 ? room.tight : room.limit;
  }
  /* No group at all, since the files are refused, say, stays none. */
  size_t next = container.directory[0] == 0 ? SIZE_MAX : next_after(left, unit_taken());
  if (box_is_on()) {
    size_t for_box = next_after(box_look(&container), unit_taken());
    if (for_box < next) next = for_box;
  }
  atomic_store_explicit(&purger_limit_due, next, memory_order_relaxed);
}

/* A thread that comes while another gives memory back waits for it: otherwise it would take the rest meanwhile. */
void limit_check_now(size_t coming) {
  if (cache_if_any() == NULL)
    return; /* past its end, or within a library that is told of pages that go */
  if (lock_holder(&purger_limit_lock) == LOCK_MINE || lock_holder(&purger_scan_lock) == LOCK_MINE)
    return; /* in a handler that has interrupted this */
  lock_acquire(&purger_limit_lock);
  if (unit_taken() >= atomic_load_explicit(&purger_limit_due, memory_order_relaxed))
    check_room(coming);
  lock_release(&purger_limit_lock);
}
