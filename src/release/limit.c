/* limit.c - see limit.h. */
#include "release/limit.h"

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

static void check_room(size_t coming) {
  find_groups();
  struct container_room room = container_room(&container, coming);
  uint64_t left = room.tight;
  if (left == 0) {
    (void)release_purge();
    room = container_room(&container, coming);
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
