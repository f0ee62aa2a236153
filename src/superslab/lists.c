/* lists.c - see lists.h. */
#include "superslab/lists.h"

struct superslab_lists superslab_lists HAK_START_DATA;
struct node_lists superslab_more_lists[NODES - 1];

static unsigned longest_run(uint32_t mask) {
  unsigned length = 0;
  for (; mask != 0; length++) mask &= mask << 1;
  return length;
}

/* Positions at which a run of `count` set bits starts. */
static uint32_t run_starts(uint32_t mask, unsigned count) {
  /* after the loop bit i says that bits i..i+covered-1 of the mask are set */
  for (unsigned covered = 1; covered < count;) {
    unsigned step = covered < count - covered ? covered : count - covered;
    mask &= mask >> step;
    covered += step;
  }
  return mask;
}

static uint32_t alignment_mask(unsigned alignment) {
  uint32_t mask = 0;
  for (unsigned i = 0; i < SLICES_PER_UNIT; i += alignment) mask |= UINT32_C(1) << i;
  return mask;
}

/* Where the two lots of lists of fenced SuperSlabs begin, and of the others. */
static unsigned lot_for(bool fenced) { return HAK_HARDENED && fenced ? 2 : 0; }

static unsigned list_for(const struct superslab *superslab) {
  unsigned lot = lot_for(superslab->fenced);
  if (atomic_load_explicit(&superslab->split, memory_order_relaxed)) lot++;
  return longest_run(superslab->free_mask) + lot * RUNS;
}

void lists_insert(struct superslab *superslab) {
  struct node_lists *lists = lists_of(superslab->node);
  unsigned list = list_for(superslab);
  superslab->list = (uint8_t)list;
  superslab->era = superslab_lists.era;
  superslab->prev = NULL;
  superslab->next = lists->of[list];
  if (lists->of[list] != NULL) lists->of[list]->prev = superslab;
  lists->of[list] = superslab;
  lists->nonempty[list / RUNS] |= UINT64_C(1) << list % RUNS;
}

void lists_remove(struct superslab *superslab) {
  struct node_lists *lists = lists_of(superslab->node);
  unsigned list = superslab->list;
  if (superslab_lists.next_scanned == superslab) superslab_lists.next_scanned = superslab->next;
  if (superslab->prev != NULL) superslab->prev->next = superslab->next;
  else lists->of[list] = superslab->next;
  if (superslab->next != NULL) superslab->next->prev = superslab->prev;
  if (lists->of[list] == NULL) lists->nonempty[list / RUNS] &= ~(UINT64_C(1) << list % RUNS);
}

void lists_update(struct superslab *superslab) {
  if (list_for(superslab) == superslab->list) return;
  lists_remove(superslab);
  lists_insert(superslab);
}

void lists_count_dirty(unsigned before, unsigned after) {
  size_t all = atomic_load_explicit(&superslab_lists.dirty_slices, memory_order_relaxed);
  atomic_store_explicit(&superslab_lists.dirty_slices, all + after - before, memory_order_relaxed);
}

/* In one list of SuperSlabs that have so many free slices in a row. */
static struct superslab *find_in_list(struct superslab *superslab, unsigned slices,
                                      uint32_t allowed, enum room room, unsigned *first) {
  /* An alignment makes few members unfit, and a former end is not found at any price: some are enough to try. */
  for (int tries = 0; superslab != NULL && tries < 8; superslab = superslab->next, tries++) {
    uint32_t starts = run_starts(superslab->free_mask, slices) & allowed;
    if (room == ROOM_AT_FORMER_END) starts &= superslab->ends >> (slices - 1);
    if (room == ROOM_IN_MEMORY) starts &= run_starts(dirty_mask_of(superslab), slices);
    if (starts == 0) continue;
    *first = (unsigned)__builtin_ctz(starts);
    return superslab;
  }
  return NULL;
}

struct superslab *lists_find_room(unsigned node, unsigned slices, unsigned alignment, bool split,
                                  bool fenced, enum room room, unsigned *first) {
  uint32_t allowed = alignment_mask(alignment);
  unsigned lot = lot_for(fenced);
  struct superslab **lists = &lists_of(node)->of[lot * RUNS];
  const uint64_t *nonempty = &lists_of(node)->nonempty[lot];
  uint64_t candidates = nonempty[0] | (split ? nonempty[1] : 0);
  candidates &= ~(((uint64_t)1 << slices) - 1);
  for (; candidates != 0; candidates &= candidates - 1) {
    unsigned run = (unsigned)__builtin_ctzll(candidates);
    struct superslab *found = find_in_list(lists[run], slices, allowed, room, first);
    if (found == NULL && split)
      found = find_in_list(lists[RUNS + run], slices, allowed, room, first);
    if (found != NULL) return found;
  }
  return NULL;
}

struct superslab *lists_find_far(unsigned node, unsigned slices, unsigned alignment, bool fenced,
                                 unsigned *first) {
  struct superslab *found = NULL;
  for (unsigned other = 0; other < node_end() && found == NULL; other++)
    if (other != node)
      found = lists_find_room(other, slices, alignment, true, fenced, ROOM_ANYWHERE, first);
  return found;
}

bool lists_may_spread(void) {
  return superslab_lists.live * SLICES_PER_UNIT <=
         2 * atomic_load_explicit(&superslab_lists.slices_in_use, memory_order_relaxed);
}

void lists_count_live(const struct superslab *superslab) {
  lists_of(superslab->node)->live++;
  if (++superslab_lists.live > superslab_lists.peak) superslab_lists.peak = superslab_lists.live;
}

void lists_uncount_live(const struct superslab *superslab) {
  lists_of(superslab->node)->live--;
  superslab_lists.live--;
}

void lists_forget(void) {
  struct superslab_lists fresh = {.peak = superslab_lists.peak, .era = superslab_lists.era};
  fresh.era++;
  superslab_lists = fresh;
  for (unsigned node = 1; node < node_end(); node++) *lists_of(node) = (struct node_lists){0};
}
