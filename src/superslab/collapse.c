/* collapse.c - see collapse.h. */
#include "superslab/collapse.h"

#include "superslab/dirty.h"
#include "superslab/emptied.h"
#include "superslab/lists.h"

/* Two heaps' worth, in a ring: for one more the oldest goes. Those of further heaps that grow at the same time stay as they are. */
enum { NOTED_MOST = 2 * HUGE_PAGES_FROM / UNIT_BYTES };

/* Under superslab_lock. The next one to look at is at `first`; NULL: it was forgotten. */
static struct superslab *noted[NOTED_MOST];
static unsigned first, noted_count;
static struct superslab *held; /* its huge page is being made */

atomic_uint collapse_owed;

static struct superslab *next_noted(void) {
  struct superslab *superslab = noted[first];
  first = (first + 1) % NOTED_MOST;
  noted_count--;
  return superslab;
}

static void note_last(struct superslab *superslab) {
  if (noted_count == NOTED_MOST) (void)next_noted();
  noted[(first + noted_count++) % NOTED_MOST] = superslab;
}

void collapse_note(struct superslab *superslab) {
  lock_acquire(&superslab_lock);
  note_last(superslab);
  lock_release(&superslab_lock);
}

bool collapse_forget(const struct superslab *superslab) {
  if (superslab == held) return false;
  for (unsigned i = 0; i < NOTED_MOST; i++)
    if (noted[i] == superslab) noted[i] = NULL;
  return true;
}

/* Was any of it given back? Read in passing: what its owners do meanwhile makes pages come, no more go. */
__attribute__((no_sanitize("thread"))) static bool has_gaps(const struct superslab *superslab) {
  for (unsigned i = 0; i < SLICES_PER_UNIT; i++) {
    const struct slab *slice = &superslab->slabs[i];
    uint8_t kind = atomic_load_explicit(&slice->kind, memory_order_relaxed);
    if (slice_holes(slice) > 0 || kind >= KIND_DECOMMITTING) return true;
    /* A slab's first slice says it, those behind may have been another slab's first. */
    if (kind == KIND_SLAB && slice->offset == 0 && *(const volatile bool *)&slice->tail_decommitted)
      return true;
  }
  return false;
}

struct superslab *collapse_take(void) {
  struct superslab *found = NULL;
  lock_acquire(&superslab_lock);
  for (unsigned left = noted_count; held == NULL && found == NULL && left > 0; left--) {
    struct superslab *superslab = next_noted();
    if (superslab == NULL || superslab->era != superslab_lists.era) continue;
    if (superslab->free_mask != 0 || has_gaps(superslab)) note_last(superslab);
    else found = held = superslab;
  }
  lock_release(&superslab_lock);
  return found;
}

/* A handler of a signal may have forked in between: in the child nothing is held. */
void collapse_put(struct superslab *superslab, enum collapse_result result) {
  bool is_empty = false;
  lock_acquire(&superslab_lock);
  if (held == superslab) {
    held = NULL;
    if (result == COLLAPSE_DONE)
      atomic_store_explicit(&superslab->huge_pages, true, memory_order_relaxed);
    if (result == COLLAPSE_LATER) note_last(superslab);
    is_empty = superslab->free_mask == slices_of(superslab) &&
               superslab->era == superslab_lists.era && emptied_or_listed(superslab);
  }
  lock_release(&superslab_lock);
  if (is_empty) emptied_release(superslab);
}

atomic_bool collapse_finds_sparse;

enum { PARTS = 16, WHOLE_PARTS = 15, SPARSE_PARTS = 14 };

/* Of one that is in use altogether. More than a 16th that is not in memory would be memory for nothing, and pages that a fork's parent or child has as
 * well would become copies. Where an eighth is not, blocks are not written whole. */
static bool has_its_pages(const struct superslab *superslab) {
  size_t resident, own;
  if (!os_resident_parts(superslab->base, UNIT_BYTES, &resident, &own)) return false;
  atomic_store_explicit(&collapse_finds_sparse, resident < UNIT_BYTES / PARTS * SPARSE_PARTS,
                        memory_order_relaxed);
  return own >= UNIT_BYTES / PARTS * WHOLE_PARTS;
}

static bool pay_one(void) {
  unsigned owed = atomic_load_explicit(&collapse_owed, memory_order_relaxed);
  while (owed > 0 &&
         !atomic_compare_exchange_weak_explicit(&collapse_owed, &owed, owed - 1,
                                                memory_order_relaxed, memory_order_relaxed))
    continue;
  return owed > 0;
}

void collapse_one(void) {
  struct superslab *superslab = pay_one() ? collapse_take() : NULL;
  if (superslab == NULL) return;
  enum collapse_result result = COLLAPSE_LATER;
  if (has_its_pages(superslab) && os_huge_pages_are_allowed())
    result = os_collapse(superslab->base, UNIT_BYTES) ? COLLAPSE_DONE : COLLAPSE_NEVER;
  collapse_put(superslab, result);
}

void collapse_fork_child(bool whole) {
  held = NULL;
  if (!whole) noted_count = 0;
}
