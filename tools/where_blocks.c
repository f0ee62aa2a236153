/* where_blocks.c - see where.h: which blocks of a slab are free, and where.
 *
 * A block that is in no list is live. So all lists that may have one of this slab are followed: the slab's own, and of each heap the bin,
 * the batches to be sent and those that were sent, of its class. What a list leads to is another's memory: it is believed as far as it leads to
 * blocks, and as far as it is said to be long.
 */
#include <stdlib.h>

#include "where.h"

/* All steps in lists of one look, and blocks of one slab: of a process that lies, they have no end. */
enum { STEPS_MOST = 4000000, BLOCKS_MOST = 1 << 20 };

struct look {
  const struct where_reader *reader;
  struct where *where;
  struct block *blocks; /* of the slab */
  uint32_t carved;
  unsigned steps;
};

/* A list that may have blocks of the slab: what of it is told. */
struct list {
  enum block_state state;
  const struct heap_figures *heap;
  uint64_t first, count;
};

/* The number of the block at an address; false: none of the slab begins there. */
static bool number_of(const struct look *look, uint64_t address, uint32_t *number) {
  const struct where *where = look->where;
  if (address < where->slab || (address - where->slab) % where->size != 0 ||
      (address - where->slab) / where->size >= look->carved)
    return false;
  *number = (uint32_t)((address - where->slab) / where->size);
  return true;
}

static void mark(struct look *look, const struct list *list, uint64_t address, uint32_t place) {
  uint32_t number;
  if (!number_of(look, address, &number) || look->blocks[number].state != BLOCK_LIVE) return;
  look->blocks[number] = (struct block){list->state, list->heap, place, (uint32_t)list->count};
}

/* Follows links in the first words of blocks. A list ends with NULL; one that leads elsewhere before has been written to. */
static void follow(struct look *look, const struct list *list) {
  uint64_t block = list->first, before = 0;
  for (uint64_t i = 0; i < list->count && look->steps < STEPS_MOST; i++, look->steps++) {
    uint64_t next = 0;
    bool sound = block != 0 && block % 16 == 0;
    if (!sound || !remote_read(look->reader->remote, block, &next, sizeof next)) {
      if (block != 0 && before != 0 && look->where->broken == 0) look->where->broken = before;
      return;
    }
    mark(look, list, block, (uint32_t)i + 1);
    before = block;
    block = next;
  }
}

/* Batches hang together by the second words of their first blocks. */
static void follow_batches(struct look *look, struct list list) {
  const struct remote *remote = look->reader->remote;
  const struct directory_layout *layout = &remote->layout;
  uint64_t batch = list.first;
  while (batch != 0 && batch % 16 == 0 && look->steps++ < STEPS_MOST) {
    uint64_t word = remote_word(remote, batch + layout->batch.next_and_count.at);
    uint64_t count = word >> layout->batch.count_shift;
    if (count == 0 || count > layout->batch.most) return;
    list.first = batch;
    list.count = 1;
    mark(look, &list, batch, 0);
    list.first = remote_word(remote, batch + layout->blocks.batch_rest.at);
    list.count = count - 1;
    follow(look, &list);
    batch = word & ((UINT64_C(1) << layout->batch.count_shift) - 1);
  }
}

/* --- the lists of a heap ---------------------------------------------------------------------------------------- */

static void look_at_bin(struct look *look, struct copy heap, struct list list) {
  const struct directory_layout *layout = &look->reader->remote->layout;
  uint32_t c = look->where->size_class;
  int64_t room = (int32_t)copy_get_at(heap, layout->heap.bins, c, layout->heap.bin_room);
  int64_t capacity = (int64_t)copy_get_at(heap, layout->heap.bins, c, layout->heap.bin_capacity);
  list.state = BLOCK_IN_BIN;
  list.first = copy_get_at(heap, layout->heap.bins, c, layout->blocks.bin_head);
  list.count = capacity > room ? (uint64_t)(capacity - room) : 0;
  follow(look, &list);
}

static void look_at_outgoing(struct look *look, struct copy heap, struct list list) {
  const struct directory_layout *layout = &look->reader->remote->layout;
  struct directory_array slots = layout->heap.outgoing;
  list.state = BLOCK_UNSENT;
  for (uint32_t i = 0; i < slots.count; i++) {
    if (copy_get_at(heap, slots, i, layout->heap.outgoing_class) != look->where->size_class)
      continue;
    list.first = copy_get_at(heap, slots, i, layout->blocks.outgoing_head);
    list.count = copy_get_at(heap, slots, i, layout->heap.outgoing_count);
    follow(look, &list);
  }
}

static void look_at_heap(struct look *look, struct copy heap, const struct heap_figures *figures) {
  const struct directory_layout *layout = &look->reader->remote->layout;
  struct directory_field word = {0, sizeof(uint64_t)};
  struct list list = {.heap = figures};
  uint32_t c = look->where->size_class;
  if (!figures->samples) look_at_bin(look, heap, list);
  if (!figures->samples && !figures->named) look_at_outgoing(look, heap, list);
  list.state = BLOCK_SENT;
  list.first = copy_get_at(heap, layout->heap.inbox, c, word);
  follow_batches(look, list);
  list.first = copy_get_at(heap, layout->heap.drained, c, word);
  follow_batches(look, list);
}

static bool look_at_heaps(struct look *look) {
  const struct remote *remote = look->reader->remote;
  const struct snapshot *heaps = look->reader->heaps;
  char *bytes = calloc(1, remote->layout.heap.bytes + 1);
  struct copy heap = {bytes, remote->layout.heap.bytes};
  for (size_t i = 0; i < heaps->heap_count && bytes != NULL && look->steps < STEPS_MOST; i++)
    if (remote_read(remote, heaps->heaps[i].address, bytes, heap.size))
      look_at_heap(look, heap, &heaps->heaps[i]);
  free(bytes);
  return bytes != NULL;
}

/* --- of a slab ---------------------------------------------------------------------------------------------------- */

static bool is_in_hole(const struct look *look, struct copy slab, uint64_t from, uint64_t to) {
  const struct directory_layout *layout = &look->reader->remote->layout;
  uint64_t page = look->reader->page, per_slice = look->reader->slice_bytes / page;
  for (uint64_t p = from / page; p * page < to && per_slice > 0; p++) {
    uint64_t offset = layout->superslab.slabs.stride * (p / per_slice);
    if (offset >= slab.size) return false;
    struct copy slice = {slab.bytes + offset, slab.size - offset};
    if ((copy_get(slice, layout->slab.holes) >> p % per_slice & 1) != 0) return true;
  }
  return false;
}

/* The hardened variant hides its lists, and says of each block what it is. */
static enum block_state state_told(const struct look *look, uint64_t number) {
  const struct remote *remote = look->reader->remote;
  const struct directory_layout *layout = &remote->layout;
  uint64_t leaf_bytes = UINT64_C(1) << layout->map.leaf_shift;
  uint64_t size = look->where->size, block = look->where->slab + number * size;
  uint64_t distance = remote_word(remote, remote->map + layout->map.root.at +
                                              block / leaf_bytes * sizeof(uint64_t));
  uint64_t index = block % leaf_bytes / look->reader->slice_bytes;
  uint8_t state = 0;
  if (distance == 0 || index >= layout->blocks.states.count) return BLOCK_NONE;
  uint64_t table = remote_word(remote, remote->map + distance * sizeof(uint64_t) +
                                           layout->blocks.states.at + index * sizeof(uint64_t));
  uint64_t at = size <= layout->blocks.state_each
                    ? number
                    : block % look->reader->slice_bytes / layout->blocks.state_bytes;
  if (table == 0 || !remote_read(remote, table + at, &state, sizeof state)) return BLOCK_NONE;
  return state >= layout->blocks.state_live ? BLOCK_LIVE : state == 0 ? BLOCK_NEVER : BLOCK_FREE;
}

static void take(struct look *look, uint32_t number, struct copy slab, struct block *block) {
  const struct where *where = look->where;
  uint64_t offset = (uint64_t)number * where->size;
  if (number >= where->count) return;
  if (number >= look->carved) *block = (struct block){.state = BLOCK_NEVER};
  else if (is_in_hole(look, slab, offset, offset + where->size))
    *block = (struct block){.state = BLOCK_IN_HOLE};
  else if (look->reader->remote->layout.blocks.state_bytes != 0)
    *block = (struct block){.state = state_told(look, number)};
  else *block = look->blocks[number];
}

bool where_blocks(struct where *where, const struct where_reader *reader, struct copy slab) {
  const struct directory_layout *layout = &reader->remote->layout;
  struct look look = {.reader = reader, .where = where};
  look.carved = (uint32_t)copy_get(slab, layout->slab.carved);
  if (look.carved > where->count) look.carved = where->count;
  if (look.carved > BLOCKS_MOST) look.carved = BLOCKS_MOST;
  look.blocks = calloc((size_t)look.carved + 1, sizeof *look.blocks);
  bool ok = look.blocks != NULL;
  if (ok && layout->blocks.bin_head.bytes != 0 && layout->blocks.state_bytes == 0) {
    struct list list = {BLOCK_IN_SLAB, where->owner, copy_get(slab, layout->free_blocks.free_list),
                        copy_get(slab, layout->slab.free_count)};
    follow(&look, &list);
    ok = look_at_heaps(&look);
  }
  if (ok) {
    take(&look, where->number, slab, &where->block);
    if (where->number > 0) take(&look, where->number - 1, slab, &where->before);
    take(&look, where->number + 1, slab, &where->behind);
  }
  free(look.blocks);
  return ok;
}
