/* growth.c - see growth.h. */
#include "release/growth.h"

#include "heap/purger.h"
#include "heap/slabs.h"
#include "os/file.h"
#include "release/background.h"
#include "release/scan.h"
#include "superslab/collapse.h"

/* A piece of a class, from where the last one ended. */
static bool scan_on(struct arena *arena, unsigned size_class, struct scan *scan) {
  struct arena_class *slabs = &arena->classes[size_class];
  lock_acquire(&arena->lock);
  bool is_in_it = slabs->next_scanned != NULL;
  lock_release(&arena->lock);
  if (!is_in_it && !scan_start(arena, size_class)) return false;
  return scan_slabs(arena, slabs, scan);
}

/* All classes were scanned: what is free now is in pages with blocks that are in use, until the heap is a quarter larger. */
static void end_round(struct arena *arena) {
  lock_acquire(&arena->lock);
  size_t from = arena->peak_committed + arena->peak_committed / REGRET_SHARE;
  if (arena->growth_purge_from < from) arena->growth_purge_from = from;
  lock_release(&arena->lock);
  arena->growth_purge_class = 0;
}

void release_growth_purge(struct thread_cache *cache) {
  /* Smaller blocks leave hardly a page free as long as one in ten is in use. */
  unsigned least = class_for(TINY_MAX);
  if (!release_is_on() || !lock_try(&purger_scan_lock)) return;
  struct arena *arena = cache->arena;
  struct scan scan = {.idle_scans = IDLE_SCANS, .at_once = true};
  for (unsigned i = 0; i < HOLDS_MOST && scan.decommitted < RELEASE_LEAST;) {
    /* Large ones first: they leave the most pages for a look. */
    unsigned size_class = CLASS_COUNT - 1 - arena->growth_purge_class;
    if (scan_on(arena, size_class, &scan)) {
      i++;
    } else if (size_class > least) {
      arena->growth_purge_class++;
    } else {
      end_round(arena);
      break;
    }
  }
  lock_release(&purger_scan_lock);
}

/* The helper was woken for what is owed; relaxed: a hint. */
static atomic_bool rung;

/* While the purger is at work another growth will do. */
static void collapse(void) {
  if (!lock_try(&purger_scan_lock)) return;
  collapse_one();
  lock_release(&purger_scan_lock);
}

/* It opens files, whose numbers other threads of the program could take for their own. Each refill comes by for as long as something is
 * owed: so nobody owes it any more where no helper may come, and the kernel is not asked while there is one. */
void release_growth_collapse(void) {
  bool has_helper = atomic_load_explicit(&purger_helper, memory_order_relaxed) != HELPER_NONE;
  if (has_helper && atomic_load_explicit(&rung, memory_order_relaxed)) return;
  if (os_files_are_safe()) {
    collapse();
    return;
  }
  bool heard = release_ring();
  bool may_come = purger_may_have_helper() &&
                  atomic_load_explicit(&purger_refused_ms, memory_order_relaxed) == 0;
  atomic_store_explicit(&rung, heard, memory_order_relaxed);
  if (!heard && !may_come) atomic_store_explicit(&collapse_owed, 0, memory_order_relaxed);
}

void release_growth_serve(bool (*goes_on)(void)) {
  atomic_store_explicit(&rung, false, memory_order_relaxed);
  unsigned owed = atomic_load_explicit(&collapse_owed, memory_order_relaxed);
  if (owed == 0) return;
  if (!os_files_of_own()) atomic_store_explicit(&collapse_owed, 0, memory_order_relaxed);
  else
    for (; owed > 0 && goes_on(); owed--) collapse();
}
