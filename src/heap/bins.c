/* bins.c - bins that run over: how deep each may be, and when it is emptied. */
#include "heap/bins.h"

#include "heap/common.h"
#include "heap/engine.h"
#include "heap/share.h"
#include "heap/slabs.h"
#include "policy/options.h"

/* A bin starts at half a page and doubles while frees outrun allocations, up to 256 KiB or 32 blocks;
 * with 16 KiB as the limit mid sizes took 35% longer. All bins of a heap together may hold 8 MiB, or
 * an eighth of what the heap owns if that is more: 1 MiB cost mid sizes a third of their time, and less
 * than 8 MiB costs them memory, since blocks then go round through more slabs (docs/decisions/0002). */
#define FIRST_CAPACITY_BYTES (2 * KIB)
#define CAPACITY_BYTES (256 * KIB)
enum { FIRST_BLOCKS_LEAST = 4, CAPACITY_BLOCKS = 32 };

/* By a rule that does not change while the program runs, so that as much is taken off as was added. */
static bool is_counted_common(unsigned size_class) {
  return common_has_class(size_class) && (HAK_HARDENED || size_class > SHARE_LAST);
}

/* Its room may be below 0 then: bin_trim. */
static void bin_halve(struct heap *heap, struct bin *bin) {
  uint32_t less = bin->capacity / 2;
  bin->capacity -= less;
  bin->room -= (int32_t)less;
  unsigned size_class = (unsigned)(bin - heap->bins);
  size_t bytes = (size_t)less * class_size(size_class);
  heap->bin_budget_used -= bytes;
  if (is_counted_common(size_class)) heap->common_bins -= bytes;
}

void bins_count(struct heap *heap) {
  heap->bin_budget_used = heap->common_bins = 0;
  for (unsigned c = 0; c < CLASS_COUNT; c++) {
    size_t bytes = (size_t)heap->bins[c].capacity * class_size(c);
    heap->bin_budget_used += bytes;
    if (is_counted_common(c)) heap->common_bins += bytes;
  }
}

static void to_slabs(struct heap *heap, unsigned size_class, void *list) {
  lock_acquire(&heap->lock);
  heap->quiet[size_class] = 0;
  if (share_is_on(size_class)) slabs_put_mixed(heap, size_class, list, true);
  else slabs_put_list(heap, size_class, list, true);
  bool due = engine_is_due(heap);
  lock_release(&heap->lock);
  superslab_settle();
  due |= common_is_due(size_class);
  heap->wants |= HAK_UNLIKELY(due) ? WANTS_ENGINE : WANTS_LOOK;
}

size_t bins_bytes(const struct heap *heap) {
  size_t bytes = 0;
  for (unsigned c = 0; c < CLASS_COUNT; c++)
    if (heap->bins[c].head != NULL)
      bytes += (size_t)((int32_t)heap->bins[c].capacity - heap->bins[c].room) * class_size(c);
  return bytes;
}

void bin_pass_by(struct heap *heap, struct bin *bin, void *block) {
  link_set(block, NULL);
  to_slabs(heap, (unsigned)(bin - heap->bins), block);
}

void bin_trim(struct heap *heap, struct bin *bin, uint32_t keep) {
  void *last = NULL, *cold = bin->head;
  uint32_t kept = 0;
  uint32_t held = (uint32_t)((int32_t)bin->capacity - bin->room);
  for (; kept < keep && cold != NULL; kept++, cold = link_follow(cold)) last = cold;
  /* One may be missing, where a signal came between the list and the room, and its handler forked. */
  if (HAK_UNLIKELY(cold == NULL && held - kept > 1)) link_report(last);
  if (last == NULL) bin->head = NULL;
  else link_set(last, NULL);
  heap->freed_in_a_row += (size_t)(held - kept) * class_size((unsigned)(bin - heap->bins));
  bin->room = (int32_t)(bin->capacity - kept);
  to_slabs(heap, (unsigned)(bin - heap->bins), cold);
}

/* A thread that sleeps keeps what its bins hold. With more than FEW_HEAPS active, all heaps share what this many may keep:
 * 100 sleeping threads hold 46 MB instead of 129 (docs/decisions/0002). */
enum { MANY_SHARE = 4 };
#define SHARED_BUDGET_LEAST (64 * KIB)

/* Where many heaps are, most slabs are the only one of their class, with a page or two in use: they are no measure of what the
 * thread works with. The others are, or were, full. */
static size_t owned_beyond_first(const struct heap *heap) {
  size_t bytes = 0;
  for (unsigned c = 0; c < CLASS_COUNT; c++) {
    size_t count = atomic_load_explicit(&heap->classes[c].count, memory_order_relaxed);
    if (count > 1) bytes += (count - 1) * class_slices(c) << SLICE_SHIFT;
  }
  return bytes;
}

static size_t budget_of(const struct heap *heap, bool *many) {
  uint64_t active = heap_active();
  size_t budget = (size_t)option_value(BINS_KB) * KIB;
  *many = active > FEW_HEAPS;
  if (*many) {
    size_t least = budget < SHARED_BUDGET_LEAST ? budget : SHARED_BUDGET_LEAST;
    budget = budget * MANY_SHARE / active;
    if (budget < least) budget = least;
  }
  if (option_value(SS_MEM_LEAN)) return budget;
  size_t share = (*many ? owned_beyond_first(heap) : slabs_owned(heap)) / 8;
  return share > budget ? share : budget;
}

/* A bin's first capacity is had beyond the budget; with many heaps, not for blocks that take more time to write than to get. */
#define BEYOND_BUDGET_BYTES (8 * KIB)

/* Of all bins of common classes, while these are shared: what a thread frees and asks for again at once. */
#define COMMON_BINS_BYTES (128 * KIB)

static bool grow(struct heap *heap, struct bin *bin, uint32_t size) {
  unsigned size_class = (unsigned)(bin - heap->bins);
  bool common = common_wanted(heap, size_class);
  uint32_t more = bin->capacity;
  if (more == 0) {
    more = (uint32_t)(FIRST_CAPACITY_BYTES / size);
    if (more < FIRST_BLOCKS_LEAST) more = FIRST_BLOCKS_LEAST;
    if (common) more = 1;
  }
  uint32_t capacity = bin->capacity + more;
  if (capacity > CAPACITY_BLOCKS && (size_t)capacity * size > CAPACITY_BYTES) return false;
  bool many;
  size_t budget = budget_of(heap, &many);
  size_t used = heap->bin_budget_used + (size_t)more * size;
  if (common && heap->common_bins + (size_t)more * size > COMMON_BINS_BYTES) return false;
  bool always =
      !common && bin->capacity == 0 && (!many || (size_t)more * size <= BEYOND_BUDGET_BYTES);
  if (!always && used > budget) return false;
  heap->bin_budget_used = used;
  if (is_counted_common(size_class)) heap->common_bins += (size_t)more * size;
  bin->capacity = capacity;
  bin->room += (int32_t)more;
  return true;
}

/* A program that only frees: what its bins gather is cold when they run over, and then each block is
 * fetched into the cache twice more. Small bins return blocks while they are warm: freeing 90% of 256 MB at
 * random took half of the time (docs/decisions/0002). */
#define FREEING_BYTES (8 * KIB)
enum { FREEING_BLOCKS_LEAST = 2 };

static void shrink(struct heap *heap, struct bin *bin, uint32_t size) {
  uint32_t least = (uint32_t)(FREEING_BYTES / size);
  if (least < FREEING_BLOCKS_LEAST) least = FREEING_BLOCKS_LEAST;
  if (bin->capacity - bin->capacity / 2 >= least) bin_halve(heap, bin);
}

/* Once so much came back without a single refill, the program is in a phase that only frees, and perhaps goes to
 * sleep after it. Nobody but the thread itself can empty its bins, and each block in them holds a page: four
 * threads that had filled and freed 512 MiB kept 38 MB so (docs/decisions/0012). */
#define SWEEP_FROM (4 * MIB)
#define SWEPT_BYTES (2 * KIB)
enum { SWEPT_BLOCKS = 2 };

static void sweep(struct heap *heap) {
  heap->freed_in_a_row = 0;
  for (unsigned c = 0; c < CLASS_COUNT; c++) {
    struct bin *bin = &heap->bins[c];
    uint32_t least = SWEPT_BYTES / class_size(c);
    if (least < SWEPT_BLOCKS) least = SWEPT_BLOCKS;
    while (bin->capacity / 2 >= least) bin_halve(heap, bin);
    heap->overflows[c] = OVERFLOWS_GROW; /* it stays small until a refill finds it empty */
    if (bin->room < 0) bin_trim(heap, bin, bin->capacity);
  }
}

void bin_overflow(struct heap *heap, struct bin *bin) {
  unsigned size_class = (unsigned)(bin - heap->bins);
  uint32_t size = class_size(size_class);
  if (heap->overflows[size_class] < OVERFLOWS_GROW) {
    heap->overflows[size_class]++;
    while (bin->room < 0)
      if (!grow(heap, bin, size)) break;
    if (bin->room >= 0) return;
  } else {
    shrink(heap, bin, size);
  }
  /* The half that was freed last stays: it is the warm one. */
  bin_trim(heap, bin, bin->capacity / 2);
  if (HAK_UNLIKELY(heap->freed_in_a_row >= SWEEP_FROM)) sweep(heap);
}
