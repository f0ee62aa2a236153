/* slab.c - see slab.h. */
#include "slab/slab.h"

#include "observe/report.h"
#include "os/locked.h"
#include "policy/options.h"
#include "slab/holes.h"

/* No unit is to be had: half of the slices in a row, and half of these, as long as a block fits. */
static struct slab *acquire_left(unsigned size_class, bool *zeroed) {
  size_t guard = option_guard() != GUARD_OFF ? os_page_size() : 0;
  struct slab *slab = NULL;
  for (unsigned slices = class_slices(size_class); slices > 0 && slab == NULL; slices /= 2)
    if (class_size(size_class) + guard <= (size_t)slices << SLICE_SHIFT)
      slab = span_acquire_left(slices, 1, KIND_SLAB, size_class, zeroed);
  return slab;
}

struct slab *slab_new(unsigned size_class, struct inbox *inbox, enum span_pages pages) {
  bool zeroed;
  unsigned slices = class_slices(size_class);
  struct slab *slab = span_acquire(slices, 1, KIND_SLAB, pages, size_class, &zeroed);
  if (slab == NULL) slab = acquire_left(size_class, &zeroed);
  if (slab == NULL) return NULL;
  slices = slab->slices;
  uint32_t size = class_size(size_class);
  if (HAK_UNLIKELY(!os_lock_part(slab_base(slab), size))) {
    slab->touched = slices << SLICE_SHIFT;
    span_release_soon(slab);
    return NULL;
  }
  slab->free_list = NULL;
  slab->next = slab->prev = NULL;
  slab->listed = LIST_NONE;
  slab->purging = slab->tail_decommitted = false;
  slab->age = 0;
  atomic_store_explicit(&slab->hole_count, 0, memory_order_relaxed);
  atomic_store_explicit(&slab->free_count, 0, memory_order_relaxed);
  atomic_store_explicit(&slab->carved, 0, memory_order_relaxed);
  slab->capacity = (uint16_t)(span_usable(slab) / size);
  slab->touched = zeroed ? 0 : slices << SLICE_SHIFT;
  for (unsigned i = 0; i < slices; i++) {
    atomic_store_explicit(&slab[i].block_size, size, memory_order_relaxed);
    slab[i].size_class = (uint8_t)size_class;
  }
  map_set_states(superslab_of(slab), slab->index, slices, size >= STATES_SPARSE_FROM);
  slab_set_inbox(slab, inbox);
  return slab;
}

void slab_set_inbox(struct slab *slab, struct inbox *inbox) {
  map_set_inbox(slab_base(slab), slab->slices, inbox);
}

void slab_release(struct slab *slab) {
  HAK_CHECK(slab_is_empty(slab));
  slab_drop(slab);
}

void slab_drop(struct slab *slab) {
  HAK_CHECK(!slab->listed);
  link_set_states(slab, 0, slab_carved(slab), STATE_NONE);
  slab_set_inbox(slab, NULL);
  atomic_store_explicit(&slab->sampled, 0, memory_order_relaxed);
  span_release_soon(slab);
}

/* Makes [0, end) of the slab resident ahead of the touches. Fresh pages only; in pieces, since a page
 * that is asked for in a batch costs two thirds of one that is touched first (docs/decisions/0004). */
static void populate_to(struct slab *slab, uint32_t end, size_t piece) {
  if (end <= slab->touched) return;
  size_t page = os_page_size();
  uint32_t start = (uint32_t)((slab->touched + page - 1) & ~(page - 1));
  uint32_t limit = (uint32_t)span_usable(slab);
  slab->touched = end;
  piece &= ~(page - 1);
  if (piece < 2 * page || end <= start || superslab_has_huge_pages(superslab_of(slab))) return;
  uint32_t target = start + (uint32_t)piece;
  if (target < end) return; /* one large block: its user decides which pages it needs */
  if (target > limit) target = limit;
  if (os_populate(slab_base(slab) + start, target - start)) slab->touched = target;
}

/* In the order of their addresses, in which the processor foresees the next one. */
static void link_in_order(char *first, unsigned count, uint32_t size, void **list) {
  char *block = first;
  for (unsigned i = 1; i < count; i++, block += size) link_set(block, block + size);
  link_set(block, *list);
  *list = first;
}

/* In an order that nobody can guess. For full alone: programs that go through what they have allocated take a sixth more time then
 * (docs/decisions/0052). */
static void link_shuffled(char *first, unsigned count, uint32_t size, void **list) {
  enum { SHUFFLED_MOST = 256 };
  uint16_t order[SHUFFLED_MOST];
  for (unsigned start = 0; start < count; start += SHUFFLED_MOST) {
    unsigned part = count - start < SHUFFLED_MOST ? count - start : SHUFFLED_MOST;
    for (unsigned i = 0; i < part; i++) {
      unsigned other = link_draw(i + 1); /* Fisher and Yates, inside out (Durstenfeld 1964) */
      if (other != i) order[i] = order[other];
      order[other] = (uint16_t)(start + i);
    }
    for (unsigned i = 0; i < part; i++) {
      char *block = first + (size_t)order[i] * size;
      link_set(block, *list);
      *list = block;
    }
  }
}

static void link_new(char *first, unsigned count, uint32_t size, void **list) {
  if (option_guard() == GUARD_FULL) link_shuffled(first, count, size, list);
  else link_in_order(first, count, size, list);
}

/* How many of `wanted` blocks from the one numbered `carved` on may be made, where memory has to be locked (os/locked.h). None once no more may
 * be: then the slab has no room. The first block was locked when the slab was made. */
static unsigned lock_next(struct slab *slab, unsigned carved, unsigned wanted) {
  uint32_t size = slab_block_size(slab);
  char *first = slab_base(slab) + (size_t)carved * size;
  for (; wanted > 0; wanted /= 2)
    if (os_lock_part(first, (size_t)wanted * size)) return wanted;
  if (carved == 0) return 1;
  slab->capacity = (uint16_t)carved;
  return 0;
}

unsigned slab_carve(struct slab *slab, unsigned wanted, size_t populate, void **list) {
  unsigned carved = slab_carved(slab), left = slab->capacity - carved;
  if (wanted > left) wanted = left;
  if (os_locks_parts_now()) wanted = lock_next(slab, carved, wanted);
  if (wanted == 0) return 0;
  HAK_CHECK(!slab->tail_decommitted);
  uint32_t size = slab_block_size(slab);
  char *first = slab_base(slab) + (size_t)carved * size;
  /* Free blocks of the hardened variant hold zeros. */
  if (link_zeroes(slab->size_class) && carved * size < slab->touched)
    link_zero(first, (size_t)wanted * size);
  populate_to(slab, (carved + wanted) * size, populate);
  link_set_states(slab, carved, wanted, STATE_FREE + slab->size_class);
  link_new(first, wanted, size, list);
  slab->age = 0;
  atomic_store_explicit(&slab->carved, (uint16_t)(carved + wanted), memory_order_relaxed);
  return wanted;
}

void *slab_carve_untouched(struct slab *slab) {
  unsigned carved = slab_carved(slab);
  uint32_t size = slab_block_size(slab);
  if (carved == slab->capacity || slab->tail_decommitted || carved * size < slab->touched)
    return NULL;
  if (option_guard() != GUARD_OFF && slab->was_used) return NULL;
  if (os_locks_parts_now() && lock_next(slab, carved, 1) == 0) return NULL;
  slab->touched = (carved + 1) * size; /* by the program, from here on */
  link_set_states(slab, carved, 1, STATE_LIVE | slab->size_class);
  slab->age = 0;
  atomic_store_explicit(&slab->carved, (uint16_t)(carved + 1), memory_order_relaxed);
  return slab_base(slab) + (size_t)carved * size;
}

unsigned slab_take_list(struct slab *slab, unsigned most, void **list) {
  unsigned count = slab_free_count(slab), left = 0;
  *list = slab->free_list;
  slab->free_list = NULL;
  if (count > most) {
    void *last = *list;
    for (unsigned i = 1; i < most; i++) last = link_follow_on(last);
    slab->free_list = link_follow_on(last);
    link_set(last, NULL);
    left = count - most;
    count = most;
  }
  slab->age = 0;
  atomic_store_explicit(&slab->free_count, (uint16_t)left, memory_order_relaxed);
  return count;
}

void *slab_take_one(struct slab *slab) {
  void *block = slab->free_list;
  if (block == NULL) return slab_carve(slab, 1, 0, &block) > 0 ? block : NULL;
  slab->free_list = link_follow(block);
  slab->age = 0;
  atomic_store_explicit(&slab->free_count, (uint16_t)(slab_free_count(slab) - 1),
                        memory_order_relaxed);
  return block;
}

void slab_put(struct slab *slab, void *first, void *last, unsigned count) {
  unsigned now_free = slab_free_count(slab) + count;
  /* More blocks back than were ever made: one of them came twice. */
  if (HAK_UNLIKELY(now_free + slab_hole_count(slab) > slab_carved(slab)))
    report_bad_pointer("free", first, REPORT_DOUBLE_FREE);
  link_set(last, slab->free_list);
  slab->free_list = first;
  slab->age = 0;
  atomic_store_explicit(&slab->free_count, (uint16_t)now_free, memory_order_relaxed);
}
