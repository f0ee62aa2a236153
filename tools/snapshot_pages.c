/* snapshot_pages.c - see snapshot.h: on which pages of a slab its free blocks lie, and what else lies there.
 *
 * Free blocks are linked through their first words, so the slab's memory is read, as far as it is resident, and the list is followed in
 * the copy. The program goes on meanwhile: a list that leads elsewhere is believed as far as it went.
 */
#include <string.h>

#include "snapshot.h"

enum { SPAN_MOST = 1 << 20, BLOCK_LEAST = 16, PAGES_OF_SLAB = SPAN_MOST / 4096 };

/* Of one slab. */
struct look {
  const struct remote *remote;
  struct copy slab;
  uint64_t start, size, page, carved_bytes;
  const double *weights;
  bool there[PAGES_OF_SLAB]; /* was read */
};

static char memory[SPAN_MOST];
static bool is_free[SPAN_MOST / BLOCK_LEAST];

static bool is_hole(const struct look *look, uint64_t page) {
  const struct directory_layout *layout = &look->remote->layout;
  uint64_t per_slice = (UINT64_C(1) << layout->map.slice_shift) / look->page;
  if (per_slice == 0) return true;
  uint64_t offset = layout->superslab.slabs.stride * (page / per_slice);
  if (offset >= look->slab.size) return true;
  struct copy slice = {look->slab.bytes + offset, look->slab.size - offset};
  return (copy_get(slice, layout->slab.holes) >> page % per_slice & 1) != 0;
}

/* Pages that are not resident are left alone: reading would bring them in. */
static void read_pages(struct look *look) {
  uint64_t pages = (look->carved_bytes + look->page - 1) / look->page;
  for (uint64_t p = 0; p < pages; p++) {
    uint64_t first = p;
    while (p < pages && look->weights[p] > 0 && !is_hole(look, p)) p++;
    bool read = p > first && remote_read(look->remote, look->start + first * look->page,
                                         memory + first * look->page, (p - first) * look->page);
    for (uint64_t i = first; i <= p && i < pages; i++) look->there[i] = read && i < p;
  }
}

static void follow(const struct look *look, uint64_t count) {
  uint64_t block = copy_get(look->slab, look->remote->layout.free_blocks.free_list);
  memset(is_free, 0, look->carved_bytes / look->size);
  for (; count > 0 && block >= look->start; count--) {
    uint64_t offset = block - look->start;
    if (offset % look->size != 0 || offset >= look->carved_bytes) return;
    if (is_free[offset / look->size] || !look->there[offset / look->page]) return;
    is_free[offset / look->size] = true;
    memcpy(&block, memory + offset, sizeof block);
  }
}

static double free_bytes_of(const struct look *look, uint64_t from, uint64_t to) {
  uint64_t bytes = 0;
  for (uint64_t i = from / look->size; i * look->size < to; i++) {
    uint64_t start = i * look->size, end = start + look->size;
    if (is_free[i]) bytes += (end < to ? end : to) - (start > from ? start : from);
  }
  return (double)bytes;
}

void snapshot_pages(struct snapshot *snapshot, const struct remote *remote, size_t page,
                    struct copy slab, uint64_t start, uint64_t bytes, const double *weights) {
  const struct directory_layout *layout = &remote->layout;
  struct look look = {.remote = remote,
                      .slab = slab,
                      .start = start,
                      .size = copy_get(slab, layout->slab.block_size),
                      .page = page,
                      .weights = weights};
  if (layout->free_blocks.free_list.bytes == 0 || look.size < BLOCK_LEAST || bytes > SPAN_MOST ||
      bytes / page > PAGES_OF_SLAB)
    return;
  look.carved_bytes = copy_get(slab, layout->slab.carved) * look.size;
  if (look.carved_bytes > bytes) look.carved_bytes = bytes / look.size * look.size;
  read_pages(&look);
  follow(&look, copy_get(slab, layout->slab.free_count));
  struct class_figures *figures = &snapshot->classes[copy_get(slab, layout->slab.size_class)];
  bool huge = copy_get(slab, layout->slab.age) == layout->free_blocks.age_huge;
  for (uint64_t from = 0; from < look.carved_bytes; from += page) {
    if (!look.there[from / page]) continue;
    uint64_t to = from + page < look.carved_bytes ? from + page : look.carved_bytes;
    double free = free_bytes_of(&look, from, to), used = (double)(to - from) - free;
    double weight = weights[from / page];
    if (free > 0 && used > 0) {
      figures->pinned += free * weight;
      figures->pinning += used * weight;
      figures->pinned_pages++;
    } else if (huge) {
      figures->huge += free * weight;
    } else {
      figures->loose += free * weight;
    }
  }
}
