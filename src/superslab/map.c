/* map.c - the address map: what is written to it; superslab.h says what it is. */
#include "superslab/map.h"

_Alignas(4096) struct map map;

static char *new_leaf(void) { return os_map_guarded(sizeof(struct map_leaf)); }

bool map_spares_make(struct map_spares *spares, size_t units) {
  size_t wanted = units / LEAF_UNITS + 2;
  spares->count = 0;
  while (spares->count < wanted && spares->count < MAP_SPARES) {
    char *leaf = new_leaf();
    if (leaf == NULL) break;
    spares->leaves[spares->count++] = leaf;
  }
  if (spares->count == wanted) return true;
  map_spares_drop(spares);
  return false;
}

void map_spares_drop(struct map_spares *spares) {
  while (spares->count > 0)
    os_unmap_guarded(spares->leaves[--spares->count], sizeof(struct map_leaf));
}

/* Makes the leaf for an address, if there is none yet. `spares`: one of these; NULL: of new memory. */
static bool need_leaf(const char *address, struct map_spares *spares) {
  _Atomic int64_t *entry = &map.root[(uintptr_t)address >> LEAF_SHIFT];
  if (atomic_load_explicit(entry, memory_order_relaxed) != 0) return true;
  char *leaf = spares == NULL      ? new_leaf()
               : spares->count > 0 ? spares->leaves[--spares->count]
                                   : NULL;
  if (leaf == NULL) return false;
  int64_t none = 0,
          distance = (int64_t)((uintptr_t)leaf - (uintptr_t)&map) / (int64_t)sizeof(void *);
  /* Of two threads that make one, one succeeds. relaxed: the leaf is zeros, which the kernel has seen to before either knew
   * its address. */
  if (!atomic_compare_exchange_strong_explicit(entry, &none, distance, memory_order_relaxed,
                                               memory_order_relaxed))
    os_unmap_guarded(leaf, sizeof(struct map_leaf));
  return true;
}

bool map_prepare_with(const char *base, size_t units, struct map_spares *spares) {
  uintptr_t first = (uintptr_t)base >> LEAF_SHIFT;
  uintptr_t last = ((uintptr_t)base + (units << UNIT_SHIFT) - 1) >> LEAF_SHIFT;
  if (last >= MAP_LEAVES) return false;
  for (uintptr_t leaf = first; leaf <= last; leaf++)
    if (!need_leaf(base + ((leaf - first) << LEAF_SHIFT), spares)) return false;
  return true;
}

bool map_prepare(const char *base, size_t units) { return map_prepare_with(base, units, NULL); }

#if HAK_HARDENED

/* relaxed: the descriptor's entry, or what a block comes with, carries it along. */
void map_set_states(const struct superslab *superslab, unsigned first, unsigned slices,
                    bool sparse) {
  _Atomic uint8_t *states = superslab->states;
  size_t each = sparse ? STATES_SPARSE : STATES_DENSE;
  if (states == NULL) return;
  if (sparse) states += SLICES_PER_UNIT * STATES_DENSE;
  for (size_t slice = first; slice < first + slices; slice++)
    atomic_store_explicit(map_states_entry(superslab->base + (slice << SLICE_SHIFT)),
                          states + slice * each, memory_order_relaxed);
}

#endif

static void set_units(const char *base, size_t units, struct superslab *superslab) {
  /* Of the first: a SuperSlab has one unit. */
  if (superslab != NULL) map_set_states(superslab, 0, SLICES_PER_UNIT, false);
  /* release: who finds the entry finds the descriptor filled in */
  for (size_t unit = 0; unit < units; unit++)
    atomic_store_explicit(map_superslab_entry(base + (unit << UNIT_SHIFT)), superslab,
                          memory_order_release);
}

bool map_set(const char *base, size_t units, struct superslab *superslab) {
  if (!map_prepare(base, units)) return false;
  set_units(base, units, superslab);
  return true;
}

void map_set_inbox(const char *base, size_t slices, struct inbox *inbox) {
  for (size_t slice = 0; slice < slices; slice++)
    atomic_store_explicit(map_inbox_entry(base + (slice << SLICE_SHIFT)), inbox,
                          memory_order_relaxed);
}

void map_clear(const char *base, size_t units) { set_units(base, units, NULL); }

bool map_claim(const char *base, struct superslab *superslab) {
  struct superslab *expected = superslab;
  /* acquire: what was done to the block before it was freed is seen by the one that frees it; release:
   * who enters the unit next comes after. */
  return atomic_compare_exchange_strong_explicit(map_superslab_entry(base), &expected, NULL,
                                                 memory_order_acq_rel, memory_order_relaxed);
}
