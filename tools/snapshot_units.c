/* snapshot_units.c - see snapshot.h: what lies in units of ours, by the address map and the warm pool. */
#include <stdlib.h>
#include <string.h>

#include "snapshot.h"

enum { PAGES_MOST = 1 << 20, SLICES_MOST = 64, CHUNK = 4096 };

struct walk {
  struct snapshot *snapshot;
  const struct remote *remote;
  const struct directory_layout *layout;
  struct resident *resident;
  uint64_t unit_bytes, slice_bytes;
  double *weights;  /* of the pages of one unit */
  uint64_t unit;    /* its address */
  char *descriptor; /* of one unit */
  uint64_t found;   /* units */
  uint64_t most;    /* more than there can be, where what is read makes sense */
};

/* Resident bytes of [from, to) of the unit whose weights are loaded. */
static double part(const struct walk *walk, uint64_t from, uint64_t to) {
  uint64_t page = walk->resident->page;
  double bytes = 0;
  while (from < to) {
    uint64_t end = (from / page + 1) * page;
    if (end > to) end = to;
    bytes += walk->weights[from / page] * (double)(end - from);
    from = end;
  }
  return bytes;
}

static void load_unit(struct walk *walk, uint64_t address) {
  walk->unit = address;
  resident_load(walk->resident, address, walk->unit_bytes, walk->weights);
  walk->found++;
}

static bool has_room(const struct walk *walk, uint64_t units) {
  return walk->found <= walk->most && units <= walk->most - walk->found;
}

/* --- SuperSlabs ---------------------------------------------------------------------------------------- */

static unsigned bits(uint64_t word) { return (unsigned)__builtin_popcountll(word); }

/* Blocks that are somewhere else than in the slab lie in pages that are resident as far as is known by page, not by
 * block: where fewer bytes are resident than there are blocks outside of holes, all count for as much less. */
static void add_slab(struct walk *walk, struct copy slab, uint64_t start, uint64_t span,
                     unsigned slices) {
  const struct directory_layout *layout = walk->layout;
  unsigned size_class = (unsigned)copy_get(slab, layout->slab.size_class);
  uint64_t size = copy_get(slab, layout->slab.block_size);
  uint64_t carved = copy_get(slab, layout->slab.carved), blocks = span;
  if (size == 0 || size > span || size_class >= CLASSES_MOST) return;
  if (carved * size > span) carved = span / size;
  if (copy_get(slab, layout->slab.capacity) * size <= span)
    blocks = copy_get(slab, layout->slab.capacity) * size;
  uint64_t in_holes = copy_get(slab, layout->slab.hole_count);
  uint64_t listed = copy_get(slab, layout->slab.free_count);
  if (in_holes > carved) in_holes = carved;
  if (listed > carved - in_holes) listed = carved - in_holes;
  double end = (double)(carved * size), resident = part(walk, start, start + carved * size);
  double out = end - (double)((in_holes + listed) * size), free = (double)(listed * size);
  double scale = resident < out + free ? resident / (out + free) : 1;
  struct class_figures *figures = &walk->snapshot->classes[size_class];
  figures->size = (uint32_t)size;
  figures->slabs++;
  figures->slab_bytes += span;
  figures->carved += carved * size;
  figures->free += (in_holes + listed) * size;
  figures->out += out * scale;
  figures->fragmentation += resident - out * scale;
  if (blocks < carved * size) blocks = carved * size;
  double unused = part(walk, start + carved * size, start + blocks);
  figures->fragmentation += unused;
  walk->snapshot->unused_resident += unused;
  figures->slack += part(walk, start + blocks, start + span);
  if (walk->snapshot->closely && listed > 0)
    snapshot_pages(walk->snapshot, walk->remote, walk->resident->page, slab, walk->unit + start,
                   span, walk->weights + start / walk->resident->page);
  for (unsigned i = 0; i < slices; i++) {
    uint64_t offset = (uint64_t)layout->superslab.slabs.stride * i;
    if (offset >= slab.size) break;
    struct copy slice = {slab.bytes + offset, slab.size - offset};
    walk->snapshot->hole_bytes +=
        bits(copy_get(slice, layout->slab.holes)) * (uint64_t)walk->resident->page;
  }
}

static void add_span(struct walk *walk, struct copy span, uint64_t start, unsigned slices) {
  const struct directory_layout *layout = walk->layout;
  struct snapshot *snapshot = walk->snapshot;
  uint64_t bytes = slices * walk->slice_bytes;
  uint8_t kind = (uint8_t)copy_get(span, layout->slab.kind);
  const uint8_t *kinds =
      layout->slab.kinds; /* free, slab, Large, cached, being given back, given back */
  if (kind == kinds[1]) {
    add_slab(walk, span, start, bytes, slices);
    return;
  }
  double resident = part(walk, start, start + bytes);
  if (kind == kinds[2]) {
    snapshot->large_bytes += bytes;
    snapshot->live += resident;
    snapshot->large_resident += resident;
    return;
  }
  if (kind == kinds[3] || kind == kinds[4]) snapshot->cached_bytes += bytes;
  else if (kind == kinds[5]) snapshot->given_bytes += bytes;
  snapshot->caches += resident;
  snapshot->spans_resident += resident;
}

static void add_superslab(struct walk *walk, uint64_t address) {
  const struct directory_layout *layout = walk->layout;
  struct copy unit = {walk->descriptor, layout->superslab.bytes};
  uint64_t free_mask = copy_get(unit, layout->superslab.free_mask);
  unsigned count = layout->superslab.slabs.count;
  load_unit(walk, address);
  walk->snapshot->superslabs++;
  for (unsigned i = 0; i < count;) {
    uint64_t start = i * walk->slice_bytes;
    if ((free_mask >> i & 1) != 0) {
      double resident = part(walk, start, start + walk->slice_bytes);
      walk->snapshot->caches += resident;
      walk->snapshot->slices_resident += resident;
      i++;
      continue;
    }
    uint64_t offset = layout->superslab.slabs.at + (uint64_t)layout->superslab.slabs.stride * i;
    struct copy span = {unit.bytes + offset, unit.size - offset};
    unsigned slices = (unsigned)copy_get(span, layout->slab.slices);
    if (slices == 0 || copy_get(span, layout->slab.offset) != 0)
      slices = 1; /* it changes just now */
    if (slices > count - i) slices = count - i;
    add_span(walk, span, start, slices);
    i += slices;
  }
}

/* --- Huge blocks and the rest ------------------------------------------------------------------------- */

static void add_huge(struct walk *walk, uint64_t address, uint64_t units) {
  struct copy unit = {walk->descriptor, walk->layout->superslab.bytes};
  uint64_t usable = copy_get(unit, walk->layout->superslab.huge_usable);
  struct snapshot *snapshot = walk->snapshot;
  snapshot->huge_live++;
  snapshot->huge_bytes += units * walk->unit_bytes;
  snapshot->huge_usable += usable;
  for (uint64_t i = 0; i < units && !snapshot_is_late(snapshot); i++) {
    uint64_t at = i * walk->unit_bytes;
    uint64_t used = usable <= at                     ? 0
                    : usable - at < walk->unit_bytes ? usable - at
                                                     : walk->unit_bytes;
    load_unit(walk, address + at);
    double held = part(walk, 0, used);
    snapshot->live += held;
    snapshot->huge_resident += held;
    snapshot->slack += part(walk, used, walk->unit_bytes);
  }
}

/* The unit at `address`, whose descriptor is at `descriptor`. */
static void add_unit(struct walk *walk, uint64_t address, uint64_t descriptor) {
  const struct directory_layout *layout = walk->layout;
  struct copy unit = {walk->descriptor, layout->superslab.bytes};
  if (!remote_read(walk->remote, descriptor, walk->descriptor, layout->superslab.bytes)) return;
  uint64_t base = copy_get(unit, layout->superslab.base);
  uint64_t units = copy_get(unit, layout->superslab.huge_units);
  if (base != address) return; /* the second and later units of a Huge block, or just freed */
  if (units == 0) add_superslab(walk, address);
  else if (has_room(walk, units)) add_huge(walk, address, units);
}

static void add_kept(struct walk *walk, uint64_t address, uint64_t units) {
  if (address % walk->unit_bytes != 0 || !has_room(walk, units)) return;
  for (uint64_t i = 0; i < units && !snapshot_is_late(walk->snapshot); i++) {
    load_unit(walk, address + i * walk->unit_bytes);
    double resident = part(walk, 0, walk->unit_bytes);
    walk->snapshot->caches += resident;
    walk->snapshot->warm_resident += resident;
  }
}

static void add_pool(struct walk *walk) {
  const struct directory_layout *layout = walk->layout;
  struct copy pool = {calloc(1, layout->pool.bytes + 1), layout->pool.bytes};
  if (pool.bytes == NULL) return;
  if (remote_read(walk->remote, walk->remote->pool, (char *)(uintptr_t)pool.bytes, pool.size)) {
    uint64_t count = copy_get(pool, layout->pool.count);
    walk->snapshot->units_warm = copy_get(pool, layout->pool.units);
    for (uint32_t i = 0; i < count && i < layout->pool.runs.count; i++)
      add_kept(walk, copy_get_at(pool, layout->pool.runs, i, layout->pool.run_base),
               copy_get_at(pool, layout->pool.runs, i, layout->pool.run_units));
  }
  free((char *)(uintptr_t)pool.bytes);
}

static void add_stuck(struct walk *walk) {
  enum { RUNS_MOST = 4096 };
  const struct directory_layout *layout = walk->layout;
  uint64_t address = remote_word(walk->remote, walk->remote->stuck);
  for (int i = 0; i < RUNS_MOST && address != 0; i++) {
    uint64_t units = remote_word(walk->remote, address + layout->chains.stuck_units.at);
    add_kept(walk, address, units);
    address = remote_word(walk->remote, address + layout->chains.stuck_next.at);
  }
}

/* --- the address map ------------------------------------------------------------------------------------- */

/* Calls each(walk, index, word) for each word of a table that is not 0. Pages that the process has never touched are
 * not read: reading would make them. */
static void each_word(struct walk *walk, uint64_t table, uint64_t count, uint64_t context,
                      void (*each)(struct walk *, uint64_t context, uint64_t index,
                                   uint64_t word)) {
  uint64_t words[CHUNK / sizeof(uint64_t)];
  for (uint64_t from = 0; from < count * sizeof(uint64_t) && !snapshot_is_late(walk->snapshot);) {
    uint64_t address = table + from, room = CHUNK - address % CHUNK;
    uint64_t bytes = count * sizeof(uint64_t) - from;
    if (bytes > room) bytes = room;
    if (resident_is(walk->resident, address) && remote_read(walk->remote, address, words, bytes))
      for (uint64_t i = 0; i < bytes / sizeof(uint64_t); i++)
        if (words[i] != 0) each(walk, context, from / sizeof(uint64_t) + i, words[i]);
    from += bytes;
  }
}

static void see_unit(struct walk *walk, uint64_t leaf_start, uint64_t index, uint64_t descriptor) {
  add_unit(walk, leaf_start + index * walk->unit_bytes, descriptor);
}

static void see_leaf(struct walk *walk, uint64_t unused, uint64_t index, uint64_t distance) {
  (void)unused;
  const struct directory_layout *layout = walk->layout;
  uint64_t leaf = walk->remote->map + distance * sizeof(uint64_t);
  snapshot_metadata(walk->snapshot, walk->resident, leaf, leaf + layout->map.leaf_bytes);
  each_word(walk, leaf + layout->map.superslabs.at, layout->map.superslabs.count,
            index << layout->map.leaf_shift, see_unit);
}

/* What a process says of itself is believed as far as the kernel has mapped it. */
static uint64_t most_units(const struct snapshot *snapshot, const struct resident *resident,
                           uint64_t unit_bytes) {
  enum { MORE = 4096 }; /* it goes on meanwhile */
  uint64_t mapped = 0, told = snapshot->units_mapped;
  for (size_t i = 0; i < resident->count; i++)
    mapped += (resident->areas[i].end - resident->areas[i].start) / unit_bytes + 1;
  return 2 * (told < mapped ? told : mapped) + MORE;
}

uint64_t snapshot_units(struct snapshot *snapshot, const struct remote *remote,
                        struct resident *resident) {
  const struct directory_layout *layout = &remote->layout;
  struct walk walk = {.snapshot = snapshot,
                      .remote = remote,
                      .layout = layout,
                      .resident = resident,
                      .unit_bytes = UINT64_C(1) << layout->map.unit_shift,
                      .slice_bytes = UINT64_C(1) << layout->map.slice_shift,
                      .most =
                          most_units(snapshot, resident, UINT64_C(1) << layout->map.unit_shift)};
  if (walk.unit_bytes / resident->page > PAGES_MOST || walk.unit_bytes < resident->page) return 0;
  walk.weights = calloc(walk.unit_bytes / resident->page, sizeof *walk.weights);
  walk.descriptor = calloc(1, layout->superslab.bytes + 1);
  if (walk.weights != NULL && walk.descriptor != NULL) {
    each_word(&walk, remote->map + layout->map.root.at, layout->map.root.count, 0, see_leaf);
    add_pool(&walk);
    add_stuck(&walk);
  }
  free(walk.weights);
  free(walk.descriptor);
  return walk.found;
}
