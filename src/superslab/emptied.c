/* emptied.c - see emptied.h. */
#include "superslab/emptied.h"

#include "policy/options.h"
#include "superslab/collapse.h"
#include "superslab/dense.h"
#include "superslab/descriptor.h"
#include "superslab/guard_pages.h"
#include "superslab/lists.h"
#include "superslab/map.h"
#include "superslab/unit.h"

bool emptied_or_listed(struct superslab *superslab) {
  if (superslab->free_mask != slices_of(superslab) || !collapse_forget(superslab)) {
    lists_update(superslab);
    return false;
  }
  lists_count_dirty(dirty_slices_of(superslab), 0);
  lists_remove(superslab);
  dense_forget(superslab);
  map_clear(superslab->base, 1);
  lists_uncount_live(superslab);
  return true;
}

/* HAKMEM_SS_MEM_LEAN=1: of emptied SuperSlabs, one is kept, and those of which so much is in memory: there are not more
 * of them than the program filled, and to fill them again costs most. Of others ever more pages would be touched, one
 * here and one there: only as long as it is so little they stay where they are, with what is known of the places where
 * blocks ended (docs/decisions/0012). */
#define LEAN_WARM_BYTES (2 * MIB)
#define LEAN_FULL_BYTES (UNIT_BYTES / 4 * 3)
#define LEAN_SPARSE_BYTES (384 * KIB)

static bool is_worth_keeping(size_t resident) {
  return unit_warm_bytes() < LEAN_WARM_BYTES || resident >= LEAN_FULL_BYTES;
}

/* Undoes emptied_or_listed. False: the map has no room for it any more. */
static bool put_in(struct superslab *superslab) {
  if (!map_set(superslab->base, 1, superslab)) return false;
  lock_acquire(&superslab_lock);
  lists_count_live(superslab);
  lists_insert(superslab);
  lists_count_dirty(0, dirty_slices_of(superslab));
  lock_release(&superslab_lock);
  return true;
}

void emptied_release(struct superslab *superslab) {
  bool keep = true;
  if (option_value(SS_MEM_LEAN)) {
    size_t resident;
    bool told = os_resident_part(superslab->base, UNIT_BYTES, &resident);
    /* What was given back a moment ago is not for keeping. */
    bool dirty = (superslab->dirty_mask & ~superslab->lazily_freed_mask) != 0;
    if (told && dirty && resident <= LEAN_SPARSE_BYTES && put_in(superslab)) return;
    keep = is_worth_keeping(told ? resident : 0);
  }
  /* The unit first: while it is in the pool no descriptor names it, and the descriptor is reused
   * only after base was read. */
  if (HAK_UNLIKELY(!superslab_unfence(superslab))) units_discard(superslab->base, 1);
  else if (keep) unit_release(superslab->base, 1, superslab->explicit_pages, superslab->node);
  else unit_give_up(superslab->base, 1, superslab->explicit_pages);
  lock_acquire(&superslab_lock);
  descriptor_free(superslab);
  lock_release(&superslab_lock);
  descriptors_give_states();
}

/* --- later ------------------------------------------------------------------------------------------- */

/* What this thread has emptied and not given up yet. Not for others, who would do this thread's work in a malloc of theirs. */
static _Thread_local struct superslab *emptied __attribute__((tls_model("initial-exec")));

void emptied_put_off(struct superslab *superslab) {
  superslab->next = emptied;
  emptied = superslab;
}

bool superslab_is_unsettled(void) { return emptied != NULL; }

void superslab_settle(void) {
  for (struct superslab *superslab; HAK_UNLIKELY((superslab = emptied) != NULL);) {
    emptied = superslab->next;
    emptied_release(superslab);
  }
  unit_settle();
}
