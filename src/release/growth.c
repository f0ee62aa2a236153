/* growth.c - see growth.h. */
#include "release/growth.h"

#include "heap/purger.h"
#include "release/background.h"
#include "release/scan.h"

/* Smaller blocks leave hardly a page free as long as one in ten is in use. */
enum { GROWTH_PURGE_BLOCK_LEAST = 1 * KIB };

/* A piece of a class, from where the last one ended. */
static bool scan_on(struct heap *home, unsigned size_class, struct scan *scan) {
  struct class_slabs *slabs = &home->classes[size_class];
  lock_acquire(&home->lock);
  bool is_in_it = slabs->next_scanned != NULL;
  lock_release(&home->lock);
  if (!is_in_it && !scan_start(home, size_class)) return false;
  return scan_slabs(home, slabs, scan);
}

/* All classes were scanned: what is free now is in pages with blocks that are in use, until the heap is a quarter larger. */
static void end_round(struct heap *home) {
  lock_acquire(&home->lock);
  size_t from = home->peak_committed + home->peak_committed / REGRET_SHARE;
  if (home->growth_purge_from < from) home->growth_purge_from = from;
  lock_release(&home->lock);
  home->growth_purge_class = 0;
}

void release_growth_purge(struct heap *heap) {
  unsigned least = class_for(GROWTH_PURGE_BLOCK_LEAST);
  if (!release_is_on() || !lock_try(&purger_scan_lock)) return;
  struct heap *home = heap->home;
  struct scan scan = {.idle_scans = IDLE_SCANS, .at_once = true};
  for (unsigned i = 0; i < PIECES_AT_ONCE && scan.decommitted < DECOMMITTED_AT_ONCE;) {
    /* Large ones first: they leave the most pages for a look. */
    unsigned size_class = CLASS_COUNT - 1 - home->growth_purge_class;
    if (scan_on(home, size_class, &scan)) {
      i++;
    } else if (size_class > least) {
      home->growth_purge_class++;
    } else {
      end_round(home);
      break;
    }
  }
  lock_release(&purger_scan_lock);
}
