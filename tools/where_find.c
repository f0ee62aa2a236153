/* where_find.c - see where.h: by the address map, what an address is. */
#include <stdlib.h>
#include <string.h>

#include "core.h"
#include "where.h"

/* The word of a table in the leaf of an address, by its unit or its slice; 0: there is none. */
static uint64_t word_of_leaf(const struct where_reader *reader, uint64_t address,
                             struct directory_array table, unsigned shift) {
  const struct remote *remote = reader->remote;
  const struct directory_layout *layout = &remote->layout;
  uint64_t index = address >> layout->map.leaf_shift;
  if (index >= layout->map.root.count || table.stride != sizeof(uint64_t)) return 0;
  uint64_t distance =
      remote_word(remote, remote->map + layout->map.root.at + index * sizeof(uint64_t));
  if (distance == 0) return 0;
  uint64_t in_leaf = (address & ((UINT64_C(1) << layout->map.leaf_shift) - 1)) >> shift;
  if (in_leaf >= table.count) return 0;
  return remote_word(remote, remote->map + distance * sizeof(uint64_t) + table.at +
                                 in_leaf * sizeof(uint64_t));
}

/* --- what is in a SuperSlab ------------------------------------------------------------------------------------- */

static const struct heap_figures *heap_of_inbox(const struct where_reader *reader, uint64_t inbox,
                                                uint32_t size_class) {
  struct directory_array inboxes = reader->remote->layout.heap.inbox;
  uint64_t heap = inbox - inboxes.at - (uint64_t)inboxes.stride * size_class;
  for (size_t i = 0; i < reader->heaps->heap_count && inbox != 0; i++)
    if (reader->heaps->heaps[i].address == heap) return &reader->heaps->heaps[i];
  return NULL;
}

static bool find_in_slab(struct where *where, const struct where_reader *reader, struct copy slab) {
  const struct directory_layout *layout = &reader->remote->layout;
  uint64_t size = copy_get(slab, layout->slab.block_size);
  where->kind = WHERE_SLAB;
  where->size_class = (uint32_t)copy_get(slab, layout->slab.size_class);
  where->sampled = copy_get(slab, layout->free_blocks.sampled) != 0;
  where->owner = heap_of_inbox(
      reader, word_of_leaf(reader, where->address, layout->map.bins, layout->map.slice_shift),
      where->size_class);
  if (size == 0 || size > where->slab_bytes) return true; /* it changes just now */
  where->size = (uint32_t)size;
  where->count = (uint32_t)copy_get(slab, layout->slab.capacity);
  if (where->count > where->slab_bytes / size) where->count = (uint32_t)(where->slab_bytes / size);
  where->number = (uint32_t)((where->address - where->slab) / size);
  where->start = where->slab + where->number * size;
  where->bytes = size;
  where->in_slack = where->number >= where->count;
  if (where->in_slack) return true;
  return where_blocks(where, reader, slab);
}

/* The span that the slice is in: its first slice, of which `slab` is the descriptor. */
static bool find_in_span(struct where *where, const struct where_reader *reader, struct copy slab) {
  const struct directory_layout *layout = &reader->remote->layout;
  const uint8_t *kinds = layout->slab.kinds;
  uint64_t kind = copy_get(slab, layout->slab.kind);
  where->start = where->slab;
  where->bytes = where->slab_bytes;
  if (kind == kinds[1]) return find_in_slab(where, reader, slab);
  if (kind == kinds[2]) where->kind = WHERE_LARGE;
  else where->kind = kind == kinds[0] ? WHERE_FREE : WHERE_CACHED;
  where->live = kind == kinds[2];
  return true;
}

static bool find_in_superslab(struct where *where, const struct where_reader *reader,
                              struct copy unit, uint64_t base) {
  const struct directory_layout *layout = &reader->remote->layout;
  uint64_t slice = (where->address - base) / reader->slice_bytes;
  uint32_t count = layout->superslab.slabs.count, stride = layout->superslab.slabs.stride;
  if ((copy_get(unit, layout->superslab.free_mask) >> slice & 1) != 0 || slice >= count) {
    where->kind = WHERE_FREE;
    where->start = base + slice * reader->slice_bytes;
    where->bytes = reader->slice_bytes;
    return true;
  }
  uint64_t at = layout->superslab.slabs.at;
  struct copy own = {unit.bytes + at + slice * stride, unit.size - at - slice * stride};
  uint64_t behind = copy_get(own, layout->slab.offset);
  if (behind > slice) behind = 0; /* it changes just now */
  uint64_t first = slice - behind;
  struct copy slab = {unit.bytes + at + first * stride, unit.size - at - first * stride};
  uint64_t slices = copy_get(slab, layout->slab.slices);
  if (slices == 0 || slices > count - first) slices = 1;
  where->slab = base + first * reader->slice_bytes;
  where->slab_bytes = slices * reader->slice_bytes;
  return find_in_span(where, reader, slab);
}

/* --- units ------------------------------------------------------------------------------------------------------ */

static void find_in_huge(struct where *where, const struct where_reader *reader, struct copy unit,
                         uint64_t units) {
  const struct directory_layout *layout = &reader->remote->layout;
  uint64_t usable = copy_get(unit, layout->superslab.huge_usable);
  where->kind = WHERE_HUGE;
  where->live = true;
  where->start = copy_get(unit, layout->superslab.base);
  where->bytes = usable;
  where->slab = where->start;
  where->slab_bytes = units * reader->unit_bytes;
  where->in_slack = where->address - where->start >= usable;
}

/* False: it is in no unit of ours. `*ok` false: out of memory. */
static bool find_in_unit(struct where *where, const struct where_reader *reader, bool *ok) {
  const struct remote *remote = reader->remote;
  const struct directory_layout *layout = &remote->layout;
  uint64_t descriptor =
      word_of_leaf(reader, where->address, layout->map.superslabs, layout->map.unit_shift);
  if (descriptor == 0) return false;
  char *bytes = calloc(1, layout->superslab.bytes + 1);
  struct copy unit = {bytes, layout->superslab.bytes};
  bool found = bytes != NULL && remote_read(remote, descriptor, bytes, unit.size);
  uint64_t base = copy_get(unit, layout->superslab.base);
  uint64_t units = found ? copy_get(unit, layout->superslab.huge_units) : 0;
  uint64_t reach = (units == 0 ? 1 : units) * reader->unit_bytes;
  *ok = bytes != NULL;
  found = found && where->address >= base && where->address - base < reach;
  if (found && units == 0) *ok = find_in_superslab(where, reader, unit, base);
  else if (found) find_in_huge(where, reader, unit, units);
  free(bytes);
  return found;
}

static bool find_in_pool(struct where *where, const struct where_reader *reader) {
  const struct remote *remote = reader->remote;
  const struct directory_layout *layout = &remote->layout;
  char *bytes = calloc(1, layout->pool.bytes + 1);
  struct copy pool = {bytes, layout->pool.bytes};
  bool found = false;
  if (bytes != NULL && remote_read(remote, remote->pool, bytes, pool.size)) {
    uint64_t count = copy_get(pool, layout->pool.count);
    for (uint32_t i = 0; i < count && i < layout->pool.runs.count && !found; i++) {
      uint64_t base = copy_get_at(pool, layout->pool.runs, i, layout->pool.run_base);
      uint64_t units = copy_get_at(pool, layout->pool.runs, i, layout->pool.run_units);
      found = where->address >= base && (where->address - base) / reader->unit_bytes < units;
      if (!found) continue;
      where->kind = WHERE_POOL;
      where->start = base;
      where->bytes = units * reader->unit_bytes;
    }
  }
  free(bytes);
  return found;
}

/* --- the rest --------------------------------------------------------------------------------------------------- */

static bool lies_in(uint64_t address, uint64_t start, uint64_t bytes) {
  return address >= start && address - start < bytes;
}

static bool find_in_tables(struct where *where, const struct where_reader *reader) {
  enum { CHUNKS_MOST = 65536 };
  const struct remote *remote = reader->remote;
  const struct directory_layout *layout = &remote->layout;
  uint64_t chunk = remote_word(remote, remote->chunks);
  bool found = lies_in(where->address, remote->map, layout->map.bytes) ||
               lies_in(where->address, remote->first_chunk, layout->chains.first_chunk_bytes);
  for (int i = 0; i < CHUNKS_MOST && chunk != 0 && !found; i++) {
    uint64_t bytes = remote_word(remote, chunk + layout->chains.chunk_bytes.at);
    found = lies_in(where->address, chunk, bytes);
    chunk = remote_word(remote, chunk + layout->chains.chunk_next.at);
  }
  if (found) where->kind = WHERE_METADATA;
  return found;
}

bool where_find(struct where *where, const struct where_reader *reader, uint64_t address) {
  bool ok = true;
  memset(where, 0, sizeof *where);
  where->address = address;
  where->block.state = where->before.state = where->behind.state = BLOCK_NONE;
  if (where_guarded(where, reader)) return true;
  if (!find_in_unit(where, reader, &ok) && !find_in_pool(where, reader) &&
      !find_in_tables(where, reader))
    where_mapping(where, reader);
  if (ok) where_samples(where, reader);
  return ok;
}
