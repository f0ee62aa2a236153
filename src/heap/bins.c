/* bins.c - bins that run over: how deep each may be, and when it is emptied. */
#include "heap/bins.h"

#include <string.h>

#include "heap/homes.h"
#include "heap/purger.h"
#include "heap/remote.h"
#include "heap/slabs.h"
#include "policy/options.h"

/* A bin starts at half a page and doubles while frees outrun allocations, up to 256 KiB or 32 blocks;
 * with 16 KiB as the limit mid sizes took 35% longer. All bins of a heap together may hold 8 MiB, or
 * an eighth of what the heap owns if that is more: 1 MiB cost mid sizes a third of their time, and less
 * than 8 MiB costs them memory, since blocks then go round through more slabs (docs/decisions/0002). */
#define FIRST_CAPACITY_BYTES (2 * KIB)
#define CAPACITY_BYTES (256 * KIB)
enum { FIRST_BLOCKS_LEAST = 4, CAPACITY_BLOCKS = 32 };

/* Its room may be below 0 then: bin_trim. */
static void bin_halve(struct heap *heap, struct bin *bin) {
  uint32_t less = bin->capacity / 2;
  bin->capacity -= less;
  bin->room -= (int32_t)less;
  unsigned size_class = (unsigned)(bin - heap->bins);
  heap->bin_budget_used -= (size_t)less * class_size(size_class);
}

void bins_count(struct heap *heap) {
  heap->bin_budget_used = 0;
  for (unsigned c = 0; c < CLASS_COUNT; c++)
    heap->bin_budget_used += (size_t)heap->bins[c].capacity * class_size(c);
}

/* Blocks went into slabs of the home. Releases its lock. */
static void end_put(struct heap *heap) {
  bool due = purger_is_due(heap->home);
  lock_release(&heap->home->lock);
  superslab_settle();
  heap->deferred |= HAK_UNLIKELY(due) ? DEFERRED_PURGE : DEFERRED_CHECK;
}

static void to_slabs(struct heap *heap, unsigned size_class, void *list) {
  struct heap *home = heap->home;
  lock_acquire(&home->lock);
  home->idle_scans[size_class] = 0;
  slabs_put_list(home, size_class, list, true);
  end_put(heap);
}

static void send_home(struct heap *heap, unsigned size_class, void *list) {
  struct bin *owner = &heap->home->bins[size_class];
  heap->deferred |= remote_send_home(owner, size_class, list) ? DEFERRED_PURGE : DEFERRED_CHECK;
}

/* Where threads share a home it is left to who needs blocks, or to the purger, to sort them into slabs; but not where so much waits already
 * that nobody seems to need it: now the blocks are warm. */
static bool leaves_unsorted(const struct heap *heap) {
  return (heap_is_guest(heap) || homes_is_shared(heap)) && slabs_waiting(heap->home) < WAITING_MOST;
}

static void give_back(struct heap *heap, unsigned size_class, void *list) {
  if (leaves_unsorted(heap)) send_home(heap, size_class, list);
  else to_slabs(heap, size_class, list);
}

/* A bin grows so often before it counts as one of a thread that only frees: to 4 KiB. */
enum { SMALL_GROWTHS = 2 };

void bins_begin_small(struct heap *heap) {
  memset(heap->overflows, OVERFLOWS_GROW - SMALL_GROWTHS, sizeof heap->overflows);
  memset(heap->refills, 0, sizeof heap->refills);
}

void bins_send_home(struct heap *heap) {
  for (unsigned c = 0; c < CLASS_COUNT; c++) {
    struct bin *bin = &heap->bins[c];
    void *list = bin->head;
    *bin = (struct bin){0};
    if (list != NULL) send_home(heap, c, list);
  }
  heap->bin_budget_used = 0;
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
  give_back(heap, (unsigned)(bin - heap->bins), cold);
}

/* A thread that sleeps keeps what its bins hold. Those that share a home share half of what one alone may keep. */
enum { SHARED_PART = 2 };
#define SHARED_BUDGET_LEAST (64 * KIB)
#define SHARED_CAPACITY_BYTES (64 * KIB)
/* Larger blocks take more time to write than to get. */
#define LARGER_FROM (2 * KIB)
enum { LARGER_PART = 4 };

static size_t budget_of(const struct heap *heap, unsigned users, uint32_t size) {
  size_t budget = (size_t)option_value(BINS_KB) * KIB;
  if (users > 1) {
    size_t least = budget < SHARED_BUDGET_LEAST ? budget : SHARED_BUDGET_LEAST;
    size_t part = budget / (SHARED_PART * users);
    if (part < least) part = least;
    return size < LARGER_FROM ? part : part / LARGER_PART;
  }
  if (option_value(SS_MEM_LEAN)) return budget;
  size_t share = slabs_owned(heap->home) / 8;
  return share > budget ? share : budget;
}

/* A bin's first capacity is had beyond the budget; in a shared home, not for blocks that take more time to write than to get. */
#define BEYOND_BUDGET_BYTES (8 * KIB)

static bool may_hold(uint32_t capacity, uint32_t size, unsigned users) {
  size_t bytes = (size_t)capacity * size;
  if (users > 1) return bytes <= SHARED_CAPACITY_BYTES;
  return capacity <= CAPACITY_BLOCKS || bytes <= CAPACITY_BYTES;
}

static bool grow(struct heap *heap, struct bin *bin, uint32_t size) {
  unsigned users = homes_users(heap);
  uint32_t more = bin->capacity;
  if (more == 0) {
    more = (uint32_t)(FIRST_CAPACITY_BYTES / size);
    if (more < FIRST_BLOCKS_LEAST)
      more = users > 1 && size > BEYOND_BUDGET_BYTES ? 1 : FIRST_BLOCKS_LEAST;
  }
  if (!may_hold(bin->capacity + more, size, users)) return false;
  size_t bytes = (size_t)more * size, used = heap->bin_budget_used + bytes;
  bool always = bin->capacity == 0 && (users == 1 || bytes <= BEYOND_BUDGET_BYTES);
  if (!always && used > budget_of(heap, users, size)) return false;
  heap->bin_budget_used = used;
  bin->capacity += more;
  bin->room += (int32_t)more;
  return true;
}

/* A program that only frees: what its bins gather is cold when they run over, and then each block is
 * fetched into the cache twice more. Small bins return blocks while they are warm: freeing 90% of 256 MB at
 * random took half of the time (docs/decisions/0002). */
#define FREEING_BYTES (8 * KIB)
enum { FREEING_BLOCKS_LEAST = 2 };

static bool is_larger_than_least(const struct bin *bin, uint32_t size) {
  uint32_t least = (uint32_t)(FREEING_BYTES / size);
  if (least < FREEING_BLOCKS_LEAST) least = FREEING_BLOCKS_LEAST;
  return bin->capacity - bin->capacity / 2 >= least;
}

static void shrink(struct heap *heap, struct bin *bin, uint32_t size) {
  if (is_larger_than_least(bin, size)) bin_halve(heap, bin);
}

/* Once so much came back without a single refill, the program is in a phase that only frees, and perhaps goes to
 * sleep after it. Nobody but the thread itself can empty its bins, and each block in them holds a page: four
 * threads that had filled and freed 512 MiB kept 38 MB so (docs/decisions/0012). */
#define SWEEP_FROM (4 * MIB)
#define SWEPT_BYTES (2 * KIB)
enum { SWEPT_BLOCKS = 2 };

/* Where threads share a home, each of many may sleep so. */
static bool sweep_is_due(const struct heap *heap) {
  if (HAK_LIKELY(heap->freed_in_a_row < SHARED_BUDGET_LEAST)) return false;
  return heap->freed_in_a_row >= SWEEP_FROM || homes_is_shared(heap);
}

/* Beside what it frees a thread sorts so many times as much of what waits: when all of a home is free nothing waits any more, and its slabs are
 * room for other sizes. */
enum { PUT_TIMES = 2 };

static void sweep(struct heap *heap) {
  size_t freed = heap->freed_in_a_row;
  heap->freed_in_a_row = 0;
  for (unsigned c = 0; c < CLASS_COUNT; c++) {
    struct bin *bin = &heap->bins[c];
    uint32_t least = SWEPT_BYTES / class_size(c);
    if (least < SWEPT_BLOCKS) least = SWEPT_BLOCKS;
    while (bin->capacity / 2 >= least) bin_halve(heap, bin);
    heap->overflows[c] = OVERFLOWS_GROW; /* it stays small until a refill finds it empty */
    if (bin->room < 0) bin_trim(heap, bin, bin->capacity);
  }
  lock_acquire(&heap->home->lock);
  slabs_put_waiting(heap->home, PUT_TIMES * freed);
  end_put(heap);
}

void *bin_pass_on(struct heap *heap, struct bin *bin) {
  unsigned size_class = (unsigned)(bin - heap->bins);
  uint32_t size = class_size(size_class);
  if (heap->overflows[size_class] < OVERFLOWS_GROW || is_larger_than_least(bin, size) ||
      !homes_is_shared(heap) || slabs_waiting(heap->home) >= WAITING_MOST)
    return NULL;
  void *block = bin_pop(bin);
  heap->freed_in_a_row += size;
  if (HAK_UNLIKELY(sweep_is_due(heap))) sweep(heap);
  return block;
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
  if (HAK_UNLIKELY(sweep_is_due(heap))) sweep(heap);
}
