/* holes.c - see holes.h. */
#include "slab/holes.h"

#include <string.h>

#include "observe/report.h"
#include "superslab/dirty.h"

/* The most blocks that a slab has: 64 KiB of 16 bytes. */
enum { BLOCKS_MOST = 4096 };
_Static_assert(SLICE_BYTES / BLOCK_ALIGNMENT == BLOCKS_MOST, "the smallest class fills one slice");

struct bits {
  uint64_t words[BLOCKS_MOST / 64];
};

static bool bit(const struct bits *bits, unsigned i) { return bits->words[i / 64] >> i % 64 & 1; }

static void set_bit(struct bits *bits, unsigned i) { bits->words[i / 64] |= UINT64_C(1) << i % 64; }

static unsigned pages_of_slice(void) { return (unsigned)(SLICE_BYTES / os_page_size()); }

static bool is_hole(const uint16_t *holes, unsigned page, unsigned per_slice) {
  return holes[page / per_slice] >> page % per_slice & 1;
}

static void get_holes(const struct slab *slab, uint16_t *holes) {
  for (unsigned i = 0; i < slab->slices; i++) holes[i] = slab[i].holes;
}

/* Does the block touch a hole? */
static bool in_hole(const uint16_t *holes, unsigned block, uint32_t size) {
  size_t page = os_page_size();
  unsigned per_slice = pages_of_slice();
  unsigned last = (unsigned)((block * size + size - 1) / page);
  for (unsigned p = (unsigned)(block * size / page); p <= last; p++)
    if (is_hole(holes, p, per_slice)) return true;
  return false;
}

bool hole_has(const struct slab *slab, unsigned number) {
  uint16_t holes[SLAB_SLICES_MOST];
  if (slab_hole_count(slab) == 0) return false;
  get_holes(slab, holes);
  return in_hole(holes, number, slab_block_size(slab));
}

void purge_begin(struct purge *purge, struct slab *slab) {
  HAK_CHECK(!slab->purging && !slab->listed);
  purge->slab = slab;
  purge->list = slab->free_list;
  purge->count = slab_free_count(slab);
  purge->carved = slab_carved(slab);
  slab->free_list = NULL;
  atomic_store_explicit(&slab->free_count, 0, memory_order_relaxed);
  slab->purging = true;
  slab->age = SLAB_CLEAN; /* unless a block comes back meanwhile */
}

static void find_free(const struct purge *purge, struct bits *is_free) {
  const struct slab *slab = purge->slab;
  const char *base = slab_base(slab);
  uint32_t size = slab_block_size(slab);
  memset(is_free, 0, sizeof *is_free);
  unsigned left = purge->count;
  /* The links lie in the program's memory. One that it overwrote names no block of this slab, or one twice. */
  const void *from = NULL;
  for (const void *block = purge->list; block != NULL; block = link_next(block), left--) {
    uintptr_t offset = (uintptr_t)block - (uintptr_t)base, i = offset / size;
    if (left == 0 || i >= purge->carved || offset % size != 0 || bit(is_free, (unsigned)i))
      report_bad_pointer("free", from, REPORT_WRITTEN_AFTER);
    set_bit(is_free, (unsigned)i);
    from = block;
  }
  if (slab_hole_count(slab) == 0) return;
  for (unsigned i = 0; i < purge->carved; i++)
    if (in_hole(purge->holes, i, size)) set_bit(is_free, i);
}

static bool all_free(const struct bits *is_free, unsigned first, unsigned last) {
  while (first <= last && bit(is_free, first)) first++;
  return first > last;
}

/* Makes the list of the blocks that keep their pages, in the order of their addresses. */
static void relink(struct purge *purge, const struct bits *is_free) {
  char *base = slab_base(purge->slab);
  uint32_t size = slab_block_size(purge->slab);
  purge->list = NULL;
  purge->count = purge->in_holes = 0;
  for (unsigned i = purge->carved; i-- > 0;) {
    if (!bit(is_free, i)) continue;
    if (in_hole(purge->holes, i, size)) {
      purge->in_holes++;
      continue;
    }
    void *block = base + (size_t)i * size;
    link_set(block, purge->list);
    purge->list = block;
    purge->count++;
  }
}

static void find_tail(struct purge *purge, uint32_t end) {
  const struct slab *slab = purge->slab;
  uint32_t page = (uint32_t)os_page_size(), all = (uint32_t)slab->slices << SLICE_SHIFT;
  purge->tail = (end + page - 1) / page * page;
  /* What was never touched has no pages, except in what is or was a huge page. */
  purge->tail_end =
      superslab_has_huge_pages(superslab_of(slab)) ? all : (slab->touched + page - 1) / page * page;
  if (purge->tail_end < purge->tail) purge->tail_end = purge->tail;
  unsigned per_slice = pages_of_slice();
  for (unsigned p = purge->tail / page; p < all / page; p++)
    purge->holes[p / per_slice] &= (uint16_t) ~(1u << p % per_slice);
}

size_t purge_find(struct purge *purge, bool all) {
  struct slab *slab = purge->slab;
  struct superslab *superslab = superslab_of(slab);
  uint32_t size = slab_block_size(slab), page = (uint32_t)os_page_size();
  unsigned per_slice = pages_of_slice();
  static struct bits
      is_free; /* 512 bytes that a small stack has no room for; one purger at a time */
  size_t pages = 0;
  memset(purge->fresh, 0, sizeof purge->fresh);
  get_holes(slab, purge->holes);
  find_free(purge, &is_free);
  while (purge->carved > 0 && bit(&is_free, purge->carved - 1)) purge->carved--;
  uint32_t end = purge->carved * size;
  find_tail(purge, end);
  for (unsigned p = 0; (p + 1) * page <= end; p++) {
    if (is_hole(purge->holes, p, per_slice)) continue;
    if (!all_free(&is_free, p * page / size, ((p + 1) * page - 1) / size)) continue;
    purge->fresh[p / per_slice] |= (uint16_t)(1u << p % per_slice);
    pages++;
  }
  size_t bytes = pages * page + (purge->tail_end - purge->tail);
  bool whole = superslab_is_whole(superslab);
  /* A huge page is not broken up for less than half of a slab of it. */
  purge->refused = whole && !all && bytes < ((size_t)slab->slices << SLICE_SHIFT) / 2;
  if (superslab->explicit_pages || purge->refused) {
    memset(purge->fresh, 0, sizeof purge->fresh);
    purge->tail = purge->tail_end;
    bytes = 0;
  } else if (bytes > 0) {
    superslab_split(superslab);
  }
  for (unsigned i = 0; i < slab->slices; i++) purge->holes[i] |= purge->fresh[i];
  relink(purge, &is_free);
  return bytes;
}

void purge_each(const struct purge *purge, void (*give)(void *, char *, size_t), void *argument) {
  size_t page = os_page_size();
  unsigned per_slice = pages_of_slice(), pages = purge->slab->slices * per_slice;
  char *base = slab_base(purge->slab);
  for (unsigned p = 0; p < pages; p++) {
    unsigned first = p;
    while (p < pages && is_hole(purge->fresh, p, per_slice)) p++;
    if (p > first) give(argument, base + first * page, (p - first) * page);
  }
  if (purge->tail_end > purge->tail)
    give(argument, base + purge->tail, purge->tail_end - purge->tail);
}

void purge_end(struct purge *purge, bool gone) {
  struct slab *slab = purge->slab;
  unsigned returned = slab_free_count(slab);
  for (unsigned i = 0; i < slab->slices; i++) slab[i].holes = purge->holes[i];
  atomic_store_explicit(&slab->hole_count, (uint16_t)purge->in_holes, memory_order_relaxed);
  link_set_states(slab, purge->carved, slab_carved(slab) - purge->carved, STATE_NONE);
  atomic_store_explicit(&slab->carved, (uint16_t)purge->carved, memory_order_relaxed);
  if (gone && purge->tail < slab->touched) slab->touched = purge->tail;
  if (HAK_HARDENED) slab->was_used = true;
  if (purge->tail_end > purge->tail && purge->carved < slab->capacity)
    slab->tail_decommitted = true;
  /* Blocks that came back meanwhile go in front: they are the warm ones. */
  if (slab->free_list == NULL) slab->free_list = purge->list;
  else link_set(link_last(slab->free_list, returned), purge->list);
  atomic_store_explicit(&slab->free_count, (uint16_t)(returned + purge->count),
                        memory_order_relaxed);
  slab->purging = false;
  if (purge->refused && slab->age == SLAB_CLEAN) slab->age = SLAB_HUGE;
}

/* Pages that are opened at once: asked for together they cost two thirds of what each costs when it is touched
 * first (docs/decisions/0004). */
enum { OPEN_PAGES = 4 };

static void populate(const struct slab *slab, const uint16_t *holes, unsigned first) {
  size_t page = os_page_size();
  unsigned per_slice = pages_of_slice(), pages = slab->slices * per_slice, end = first;
  while (end < pages && end < first + OPEN_PAGES && is_hole(holes, end, per_slice)) end++;
  if (end > first + 1) os_populate(slab_base(slab) + first * page, (end - first) * page);
}

void hole_open(struct slab *slab) {
  if (slab_hole_count(slab) == 0) {
    slab->tail_decommitted = false;
    return;
  }
  size_t page = os_page_size();
  unsigned per_slice = pages_of_slice(), pages = slab->slices * per_slice, p = 0, opened = 0;
  uint32_t size = slab_block_size(slab);
  uint16_t holes[SLAB_SLICES_MOST] = {0};
  get_holes(slab, holes);
  while (p < pages && !is_hole(holes, p, per_slice)) p++;
  unsigned count = slab_free_count(slab), found = 0;
  populate(slab, holes, p);
  /* A block longer than a page, or across the end of what is opened, stays until its last page is open. */
  for (; p < pages && is_hole(holes, p, per_slice) && (opened < OPEN_PAGES || found == 0);
       p++, opened++) {
    slab[p / per_slice].holes &= (uint16_t) ~(1u << p % per_slice);
    holes[p / per_slice] = slab[p / per_slice].holes;
    uint32_t last = (uint32_t)(((p + 1) * page - 1) / size);
    for (uint32_t i = (uint32_t)(p * page / size); i <= last && i < slab_carved(slab); i++) {
      if (in_hole(holes, i, size)) continue;
      void *block = slab_base(slab) + (size_t)i * size;
      link_set(block, slab->free_list);
      slab->free_list = block;
      found++;
    }
  }
  HAK_CHECK(found > 0 && found <= slab_hole_count(slab));
  atomic_store_explicit(&slab->hole_count, (uint16_t)(slab_hole_count(slab) - found),
                        memory_order_relaxed);
  atomic_store_explicit(&slab->free_count, (uint16_t)(count + found), memory_order_relaxed);
}
