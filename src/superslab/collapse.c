/* collapse.c - see collapse.h. */
#include "superslab/collapse.h"

#include "superslab/dirty.h"
#include "superslab/emptied.h"
#include "superslab/lists.h"

/* Two heaps' worth. Those of further heaps that grow at the same time stay as they are. */
enum { NOTED_MOST = 2 * HUGE_PAGES_FROM / UNIT_BYTES };

/* Under superslab_lock. */
static struct superslab *noted[NOTED_MOST];
static unsigned noted_count;
static struct superslab *held;

/* Relaxed: a hint. */
static atomic_bool is_owed;

void collapse_note(struct superslab *superslab) {
  lock_acquire(&superslab_lock);
  if (noted_count < NOTED_MOST) noted[noted_count++] = superslab;
  lock_release(&superslab_lock);
}

void collapse_owe(void) { atomic_store_explicit(&is_owed, true, memory_order_relaxed); }

static void remove_noted(unsigned i) { noted[i] = noted[--noted_count]; }

bool collapse_forget(const struct superslab *superslab) {
  if (superslab == held) return false;
  for (unsigned i = 0; i < noted_count; i++)
    if (noted[i] == superslab) {
      remove_noted(i);
      break;
    }
  return true;
}

/* In use altogether, and nothing of it was given back. One that was split will have small pages for good. */
struct superslab *collapse_take(void) {
  lock_acquire(&superslab_lock);
  for (unsigned i = noted_count; held == NULL && i-- > 0;) {
    struct superslab *superslab = noted[i];
    bool split = atomic_load_explicit(&superslab->split, memory_order_relaxed);
    if (split || superslab->era != superslab_lists.era) remove_noted(i);
    else if (superslab->free_mask == 0) {
      remove_noted(i);
      held = superslab;
      lock_release(&superslab_lock);
      return superslab;
    }
  }
  lock_release(&superslab_lock);
  return NULL;
}

/* A handler of a signal may have forked in between: in the child nothing is held. */
void collapse_put(struct superslab *superslab, bool done) {
  bool is_empty = false;
  lock_acquire(&superslab_lock);
  if (held == superslab) {
    held = NULL;
    if (done) atomic_store_explicit(&superslab->huge_pages, true, memory_order_relaxed);
    is_empty = superslab->free_mask == slices_of(superslab) &&
               superslab->era == superslab_lists.era && emptied_or_listed(superslab);
  }
  lock_release(&superslab_lock);
  if (is_empty) emptied_release(superslab);
}

/* More than a 16th that is not in memory would be memory for nothing. */
static bool is_in_memory(const struct superslab *superslab) {
  size_t resident;
  return os_resident_part(superslab->base, UNIT_BYTES, &resident) &&
         resident >= UNIT_BYTES / 16 * 15;
}

void collapse_settle(void) {
  if (HAK_LIKELY(!atomic_load_explicit(&is_owed, memory_order_relaxed))) return;
  atomic_store_explicit(&is_owed, false, memory_order_relaxed);
  struct superslab *superslab = collapse_take();
  if (superslab == NULL) return;
  bool wanted = is_in_memory(superslab) && !os_huge_pages_are_off();
  collapse_put(superslab, wanted && os_collapse(superslab->base, UNIT_BYTES));
}

void collapse_fork_child(bool whole) {
  held = NULL;
  if (!whole) noted_count = 0;
}
