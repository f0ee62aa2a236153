/* snapshot_heaps.c - see snapshot.h: what the heaps of threads keep, and what was counted. */
#include <stdlib.h>
#include <string.h>

#include "slab/size_class.h"
#include "snapshot.h"

enum { BATCHES_MOST = 20000 };

/* Batches of one class that hang on a word of a heap. */
struct chain {
  uint64_t next; /* 0: no more */
  unsigned size_class;
};

/* One step along all of them by one call. They are blocks that are free, whose owner may take them at any moment, and the
 * program may write what it likes there: what makes no sense ends a chain. False: all have ended. */
static bool step(const struct remote *remote, struct chain *chains, unsigned count,
                 uint64_t *blocks) {
  const struct directory_layout *layout = &remote->layout;
  uint64_t addresses[READ_AT_ONCE], words[READ_AT_ONCE];
  struct chain *of[READ_AT_ONCE];
  unsigned asked = 0;
  for (unsigned i = 0; i < count && asked < READ_AT_ONCE; i++) {
    if (chains[i].next == 0) continue;
    of[asked] = &chains[i];
    addresses[asked++] = chains[i].next + layout->batch.next_and_count.at;
  }
  if (asked == 0) return false;
  unsigned got = remote_read_words(remote, addresses, asked, words);
  if (got < asked) of[got]->next = 0;
  for (unsigned i = 0; i < got && i < asked; i++) {
    uint64_t next = words[i] & ((UINT64_C(1) << layout->batch.count_shift) - 1);
    uint64_t batch = words[i] >> layout->batch.count_shift;
    bool sound = batch > 0 && batch <= layout->batch.most;
    if (sound) blocks[of[i]->size_class] += batch;
    of[i]->next = sound && next % 16 == 0 ? next : 0;
  }
  return true;
}

static void add_kept(struct snapshot *snapshot, uint64_t size_class, uint64_t blocks,
                     uint64_t *bytes) {
  if (size_class >= CLASSES_MOST) return;
  snapshot->classes[size_class].kept += blocks;
  *bytes += blocks * snapshot->classes[size_class].size;
}

static void add_bins(struct snapshot *snapshot, const struct directory_layout *layout,
                     struct copy heap, struct heap_figures *figures) {
  for (uint32_t c = 0; c < layout->heap.classes && c < layout->heap.bins.count; c++) {
    int64_t room = (int32_t)copy_get_at(heap, layout->heap.bins, c, layout->heap.bin_room);
    int64_t capacity = (int64_t)copy_get_at(heap, layout->heap.bins, c, layout->heap.bin_capacity);
    if (capacity > room) add_kept(snapshot, c, (uint64_t)(capacity - room), &figures->bins);
  }
}

static void add_outgoing(struct snapshot *snapshot, const struct directory_layout *layout,
                         struct copy slots, struct directory_array array,
                         struct heap_figures *figures) {
  for (uint32_t i = 0; i < array.count; i++)
    add_kept(snapshot, copy_get_at(slots, array, i, layout->heap.outgoing_class),
             copy_get_at(slots, array, i, layout->heap.outgoing_count), &figures->outgoing);
}

static void add_more_outgoing(struct snapshot *snapshot, const struct remote *remote,
                              uint64_t address, struct heap_figures *figures) {
  const struct directory_layout *layout = &remote->layout;
  struct directory_array array = {0, layout->heap.outgoing.stride,
                                  layout->heap.more_outgoing_count};
  size_t bytes = (size_t)array.stride * array.count;
  char *slots = address != 0 && bytes <= 1 << 24 ? malloc(bytes + 1) : NULL;
  if (slots != NULL && remote_read(remote, address, slots, bytes))
    add_outgoing(snapshot, layout, (struct copy){slots, bytes}, array, figures);
  free(slots);
}

static void add_inbox(struct snapshot *snapshot, const struct remote *remote, struct copy heap,
                      struct heap_figures *figures) {
  const struct directory_layout *layout = &remote->layout;
  struct directory_field word = {0, 8};
  uint64_t blocks[CLASSES_MOST] = {0}, walked = 0;
  struct chain chains[2 * CLASSES_MOST];
  unsigned count = 0;
  int64_t told = (int64_t)copy_get(heap, layout->heap.inbox_bytes);
  for (uint32_t c = 0; c < layout->heap.classes; c++) {
    chains[count++] = (struct chain){copy_get_at(heap, layout->heap.inbox, c, word), c};
    chains[count++] = (struct chain){copy_get_at(heap, layout->heap.drained, c, word), c};
  }
  for (int i = 0; i < BATCHES_MOST && !snapshot_is_late(snapshot); i++)
    if (!step(remote, chains, count, blocks)) break;
  for (uint32_t c = 0; c < layout->heap.classes; c++)
    walked += blocks[c] * snapshot->classes[c].size;
  /* The heap knows how much it is, the walk of which sizes, about. */
  double scale = walked > 0 && told > 0 ? (double)told / (double)walked : 0;
  for (uint32_t c = 0; c < layout->heap.classes; c++)
    add_kept(snapshot, c, (uint64_t)((double)blocks[c] * scale + 0.5), &figures->inbox);
}

static void add_counters(struct snapshot *snapshot, const struct remote *remote, uint64_t address) {
  const struct directory_layout *layout = &remote->layout;
  uint32_t per_class = layout->counters.counters;
  size_t words = (size_t)layout->counters.classes * per_class;
  uint64_t *counters = address != 0 ? calloc(words + 1, sizeof *counters) : NULL;
  if (counters != NULL && remote_read(remote, address, counters, words * sizeof *counters)) {
    for (uint32_t c = 0; c < layout->counters.classes; c++) {
      uint64_t *to = c < layout->heap.classes ? snapshot->classes[c].counters
                     : c < layout->heap.classes + 2
                         ? snapshot->huge_counters[c - layout->heap.classes]
                         : NULL;
      for (uint32_t i = 0; i < per_class && to != NULL; i++) to[i] += counters[c * per_class + i];
    }
  }
  free(counters);
}

static void add_supplies(struct snapshot *snapshot, const struct remote *remote) {
  const struct directory_layout *layout = &remote->layout;
  uint32_t per_class = layout->counters.supplies;
  size_t words = (size_t)layout->counters.classes * per_class;
  uint64_t *supplies = calloc(words + 1, sizeof *supplies);
  if (supplies != NULL &&
      remote_read(remote, remote->counters_supplied, supplies, words * sizeof *supplies)) {
    for (uint32_t c = 0; c < layout->counters.classes; c++) {
      uint64_t *to = c < layout->heap.classes ? snapshot->classes[c].supplies
                     : c < layout->heap.classes + 2
                         ? snapshot->huge_supplies[c - layout->heap.classes]
                         : NULL;
      for (uint32_t i = 0; i < per_class && to != NULL; i++) to[i] = supplies[c * per_class + i];
    }
  }
  free(supplies);
}

/* What only the heap of a thread has. */
static void add_of_thread(struct snapshot *snapshot, const struct remote *remote, struct copy heap,
                          struct heap_figures *figures) {
  const struct directory_layout *layout = &remote->layout;
  figures->mark = copy_get(heap, layout->heap.thread);
  figures->cached = copy_get(heap, layout->heap.cached);
  add_outgoing(snapshot, layout, heap, layout->heap.outgoing, figures);
  add_more_outgoing(snapshot, remote, copy_get(heap, layout->heap.more_outgoing), figures);
}

static void add_heap(struct snapshot *snapshot, const struct remote *remote, struct copy heap,
                     struct heap_figures *figures) {
  const struct directory_layout *layout = &remote->layout;
  figures->parked = copy_get(heap, layout->heap.state) == layout->heap.parked;
  figures->samples = copy_get(heap, layout->heap.state) == layout->heap.samples;
  figures->common =
      layout->common.state != 0 && copy_get(heap, layout->heap.state) == layout->common.state;
  figures->slab_bytes = copy_get(heap, layout->heap.slab_bytes);
  figures->free = copy_get(heap, layout->heap.free_bytes);
  figures->given = copy_get(heap, layout->heap.decommitted_bytes);
  if (!figures->samples) add_bins(snapshot, layout, heap, figures);
  bool is_threads = !figures->samples && copy_get(heap, layout->heap.state) != layout->named.state;
  if (is_threads) add_of_thread(snapshot, remote, heap, figures);
  add_inbox(snapshot, remote, heap, figures);
  add_counters(snapshot, remote, copy_get(heap, layout->heap.counters));
  snapshot->heaps_parked += figures->parked;
  snapshot->heaps_of_samples += figures->samples;
  snapshot->heaps_common += figures->common;
}

/* False: it was destroyed, and waits to be another one. */
static bool add_named(struct snapshot *snapshot, const struct directory_layout *layout,
                      struct copy heap, struct heap_figures *figures) {
  struct directory_field name = layout->named.name;
  if (copy_get(heap, layout->named.exists) == 0) return false;
  figures->named = true;
  for (unsigned i = 0; i < name.bytes && i + 1 < sizeof figures->own_name; i++) {
    char letter = (char)copy_get(heap, (struct directory_field){(uint16_t)(name.at + i), 1});
    if (letter == '\0') break;
    figures->own_name[i] = letter;
  }
  make_printable(figures->own_name, sizeof figures->own_name);
  figures->live_blocks = copy_get(heap, layout->named.live_blocks);
  figures->live_bytes = copy_get(heap, layout->named.live_bytes);
  figures->peak_bytes = copy_get(heap, layout->named.peak_bytes);
  figures->span_bytes = copy_get(heap, layout->named.span_bytes);
  figures->limit = copy_get(heap, layout->named.limit);
  figures->refused = copy_get(heap, layout->named.refused);
  snapshot->heaps_named++;
  return true;
}

static bool is_counted(const struct class_figures *figures) {
  for (int i = 0; i < COUNTERS_MOST; i++)
    if (figures->counters[i] != 0 || figures->supplies[i] != 0) return true;
  return false;
}

bool snapshot_heaps(struct snapshot *snapshot, const struct remote *remote) {
  const struct directory_layout *layout = &remote->layout;
  size_t room = 0, bytes = layout->heap.bytes;
  char *buffer = malloc(bytes + layout->named.bytes + 1);
  bool ok = buffer != NULL;
  uint64_t address = remote_word(remote, remote->heaps);
  while (ok && address != 0 && snapshot->heap_count < HEAPS_MOST && !snapshot_is_late(snapshot) &&
         remote_read(remote, address, buffer, bytes)) {
    struct copy heap = {buffer, bytes};
    if (snapshot->heap_count == room) {
      room = room == 0 ? 64 : room * 2;
      struct heap_figures *heaps = realloc(snapshot->heaps, room * sizeof *heaps);
      ok = heaps != NULL;
      if (!ok) break;
      snapshot->heaps = heaps;
    }
    struct heap_figures *figures = &snapshot->heaps[snapshot->heap_count++];
    *figures = (struct heap_figures){.address = address};
    add_heap(snapshot, remote, heap, figures);
    if (layout->named.bytes > 0 && copy_get(heap, layout->heap.state) == layout->named.state) {
      struct copy whole = {buffer, layout->named.bytes};
      if (!remote_read(remote, address, buffer, layout->named.bytes) ||
          !add_named(snapshot, layout, whole, figures))
        snapshot->heap_count--;
    }
    address = copy_get(heap, layout->heap.next);
  }
  free(buffer);
  add_counters(snapshot, remote, remote->counters_shared);
  add_supplies(snapshot, remote);
  /* Of classes without a slab just now nobody there keeps the size. */
  for (unsigned c = 0; c < CLASS_COUNT && remote->layout.heap.classes == CLASS_COUNT; c++)
    if (is_counted(&snapshot->classes[c]) && snapshot->classes[c].size == 0)
      snapshot->classes[c].size = class_size(c);
  return ok;
}
