/* bins.c - bins that run over: how deep each may be, and when it is emptied. */
#include "heap/bins.h"

#include <string.h>

#include "heap/homes.h"
#include "heap/purger.h"
#include "heap/remote.h"
#include "heap/slabs.h"
#include "policy/options.h"

/* A bin starts at half a page. It doubles when it runs over for the first time since it was empty, up to 256 KiB or 32 blocks: a thread that
 * frees more than it will ask for, and sleeps, keeps little. With 16 KiB as the limit mid sizes took 35% longer. All bins of a cache together
 * may hold 8 MiB, or an eighth of what the arena owns if that is more. 1 MiB cost mid sizes a third of their time, and less
 * than 8 MiB costs them memory, since blocks then go round through more slabs (docs/decisions/0002, 0040). */
#define FIRST_CAPACITY_BYTES (2 * KIB)
#define CAPACITY_BYTES (256 * KIB)
enum { FIRST_BLOCKS_LEAST = 4, CAPACITY_BLOCKS = 32 };
/* To this a bin shrinks, if its thread only frees the class; of each class so much is kept beside the budget of all bins. */
#define SMALL_BIN_BYTES (8 * KIB)
enum { SMALL_BIN_BLOCKS = 2 };

/* Its room may be below 0 then: bin_trim. */
static void bin_halve(struct thread_cache *cache, struct bin *bin) {
  uint32_t less = bin->capacity / 2;
  bin->capacity -= less;
  bin->room -= (int32_t)less;
  unsigned size_class = (unsigned)(bin - cache->bins);
  cache->bin_budget_used -= (size_t)less * class_size(size_class);
}

void bins_count(struct thread_cache *cache) {
  cache->bin_budget_used = 0;
  for (unsigned c = 0; c < CLASS_COUNT; c++)
    cache->bin_budget_used += (size_t)cache->bins[c].capacity * class_size(c);
}

/* Blocks went into slabs of the home. Releases its lock. */
static void end_put(struct thread_cache *cache) {
  bool due = purger_is_due(cache->arena);
  lock_release(&cache->arena->lock);
  superslab_settle();
  cache->deferred |= HAK_UNLIKELY(due) ? DEFERRED_PURGE : DEFERRED_CHECK;
}

static void to_slabs(struct thread_cache *cache, unsigned size_class, void *list) {
  struct arena *arena = cache->arena;
  lock_acquire(&arena->lock);
  arena->classes[size_class].idle_scans = 0;
  slabs_put_list(arena, size_class, list, true);
  end_put(cache);
}

static void send_home(struct thread_cache *cache, unsigned size_class, void *list) {
  struct inbox *owner = &cache->arena->inboxes[size_class];
  cache->deferred |= remote_send_home(owner, size_class, list) ? DEFERRED_PURGE : DEFERRED_CHECK;
}

/* Where threads share a home it is left to who needs blocks, or to the purger, to sort them into slabs; but not where so much waits already
 * that nobody seems to need it: now the blocks are warm. */
static bool leaves_unsorted(const struct thread_cache *cache) {
  return (cache_is_guest(cache) || homes_is_shared(cache->arena)) &&
         slabs_waiting(cache->arena) < RELEASE_MOST;
}

static void give_back(struct thread_cache *cache, unsigned size_class, void *list) {
  if (leaves_unsorted(cache)) send_home(cache, size_class, list);
  else to_slabs(cache, size_class, list);
}

void bins_begin(struct thread_cache *cache) {
  memset(cache->use, 0, sizeof cache->use);
  cache->refilled = 0;
}

void bins_send_home(struct thread_cache *cache) {
  for (unsigned c = 0; c < CLASS_COUNT; c++) {
    struct bin *bin = &cache->bins[c];
    void *list = bin->head;
    *bin = (struct bin){0};
    if (list != NULL) send_home(cache, c, list);
  }
  cache->bin_budget_used = 0;
}

size_t bins_bytes(const struct bin *bins) {
  size_t bytes = 0;
  for (unsigned c = 0; c < CLASS_COUNT; c++)
    if (bins[c].head != NULL)
      bytes += (size_t)((int32_t)bins[c].capacity - bins[c].room) * class_size(c);
  return bytes;
}

void bin_pass_by(struct thread_cache *cache, struct bin *bin, void *block) {
  link_set(block, NULL);
  to_slabs(cache, (unsigned)(bin - cache->bins), block);
}

void bin_trim(struct thread_cache *cache, struct bin *bin, uint32_t keep) {
  void *last = NULL, *cold = bin->head;
  uint32_t kept = 0;
  uint32_t held = (uint32_t)((int32_t)bin->capacity - bin->room);
  for (; kept < keep && cold != NULL; kept++, cold = link_follow(cold)) last = cold;
  /* One may be missing, where a signal came between the list and the room, and its handler forked. */
  if (HAK_UNLIKELY(cold == NULL && held - kept > 1)) link_report(last);
  if (last == NULL) bin->head = NULL;
  else link_end(last);
  cache->freed_in_a_row += (size_t)(held - kept) * class_size((unsigned)(bin - cache->bins));
  bin->room = (int32_t)(bin->capacity - kept);
  give_back(cache, (unsigned)(bin - cache->bins), cold);
}

/* A thread that sleeps keeps what its bins hold. Those that share a home share half of what one alone may keep. */
enum { SHARED_PART = 2 };
/* At least this, and no bin of it more than this. */
#define BINS_LEAST (64 * KIB)
/* Blocks larger than a bin's first capacity take more time to write than to get. */
enum { LARGER_PART = 4 };

/* A thread may keep a part of what it was given so far: one that used each class once, and sleeps, keeps little (docs/decisions/0040 has the
 * parts that were tried). */
enum { EARNED_PART = 16 };

static size_t budget_of(const struct thread_cache *cache, unsigned users, uint32_t size) {
  size_t most = (size_t)option_value(BINS_KB) * KIB, budget = cache->refilled / EARNED_PART;
  size_t least = most < BINS_LEAST ? most : BINS_LEAST;
  if (users > 1) most /= SHARED_PART * users;
  if (budget > most) budget = most;
  if (budget < least) budget = least;
  if (users > 1) return size < FIRST_CAPACITY_BYTES ? budget : budget / LARGER_PART;
  if (option_value(SS_MEM_LEAN)) return budget;
  size_t share = slabs_owned(cache->arena) / 8;
  return share > budget ? share : budget;
}

static bool may_hold(uint32_t capacity, uint32_t size, unsigned users) {
  size_t bytes = (size_t)capacity * size;
  if (users > 1) return bytes <= BINS_LEAST;
  return capacity <= CAPACITY_BLOCKS || bytes <= CAPACITY_BYTES;
}

/* Blocks of half a page, four at least where these are SMALL_BIN_BYTES or less. */
static uint32_t first_capacity(uint32_t size) {
  uint32_t blocks = (uint32_t)(FIRST_CAPACITY_BYTES / size), few = SMALL_BIN_BYTES / size;
  if (few > FIRST_BLOCKS_LEAST) few = FIRST_BLOCKS_LEAST;
  if (blocks < few) blocks = few;
  return blocks > 0 ? blocks : 1;
}

static bool grow(struct thread_cache *cache, struct bin *bin, uint32_t size) {
  unsigned users = homes_users(cache->arena);
  uint32_t more = bin->capacity > 0 ? bin->capacity : first_capacity(size);
  if (!may_hold(bin->capacity + more, size, users)) return false;
  size_t bytes = (size_t)more * size, used = cache->bin_budget_used + bytes;
  bool always = bin->capacity == 0 && size <= FIRST_CAPACITY_BYTES;
  if (!always && used > budget_of(cache, users, size)) return false;
  cache->bin_budget_used = used;
  bin->capacity += more;
  bin->room += (int32_t)more;
  return true;
}

/* A program that only frees: what its bins gather is cold when they run over, and then each block is
 * fetched into the cache twice more. Small bins return blocks while they are warm: freeing 90% of 256 MB at
 * random took half of the time (docs/decisions/0002). */
static bool is_larger_than_least(const struct bin *bin, uint32_t size) {
  uint32_t least = (uint32_t)(SMALL_BIN_BYTES / size);
  if (least < SMALL_BIN_BLOCKS) least = SMALL_BIN_BLOCKS;
  return bin->capacity - bin->capacity / 2 >= least;
}

static void shrink(struct thread_cache *cache, struct bin *bin, uint32_t size) {
  if (is_larger_than_least(bin, size)) bin_halve(cache, bin);
}

/* Once so much came back without a single refill, the program is in a phase that only frees, and perhaps goes to
 * sleep after it. Nobody but the thread itself can empty its bins, and each block in them holds a page: four
 * threads that had filled and freed 512 MiB kept 38 MB so (docs/decisions/0012). */
#define SWEEP_FROM (4 * MIB)

/* Where threads share an arena, each of many may sleep so. */
static bool sweep_is_due(const struct thread_cache *cache) {
  if (HAK_LIKELY(cache->freed_in_a_row < BINS_LEAST)) return false;
  return cache->freed_in_a_row >= SWEEP_FROM || homes_is_shared(cache->arena);
}

/* Beside what it frees a thread sorts as much of what waits: its slabs are room for other sizes. */
static void sweep(struct thread_cache *cache) {
  size_t freed = cache->freed_in_a_row;
  cache->freed_in_a_row = 0;
  for (unsigned c = 0; c < CLASS_COUNT; c++) {
    struct bin *bin = &cache->bins[c];
    uint32_t least = FIRST_CAPACITY_BYTES / class_size(c);
    if (least < SMALL_BIN_BLOCKS) least = SMALL_BIN_BLOCKS;
    while (bin->capacity / 2 >= least) bin_halve(cache, bin);
    cache->use[c].overflows = OVERFLOWS_SHRINK; /* it stays small until a refill finds it empty */
    if (bin->room < 0) bin_trim(cache, bin, bin->capacity);
  }
  lock_acquire(&cache->arena->lock);
  slabs_put_waiting(cache->arena, freed);
  end_put(cache);
}

void *bin_pass_on(struct thread_cache *cache, struct bin *bin) {
  unsigned size_class = (unsigned)(bin - cache->bins);
  uint32_t size = class_size(size_class);
  if (cache->use[size_class].overflows < OVERFLOWS_SHRINK || is_larger_than_least(bin, size) ||
      !homes_is_shared(cache->arena) || slabs_waiting(cache->arena) >= RELEASE_MOST)
    return NULL;
  void *block = bin_pop(bin);
  cache->freed_in_a_row += size;
  if (HAK_UNLIKELY(sweep_is_due(cache))) sweep(cache);
  return block;
}

void bin_overflow(struct thread_cache *cache, struct bin *bin) {
  unsigned size_class = (unsigned)(bin - cache->bins);
  uint32_t size = class_size(size_class);
  if (cache->use[size_class].overflows < OVERFLOWS_SHRINK) {
    bool grows = cache->use[size_class].overflows == 0 || bin->capacity == 0;
    cache->use[size_class].overflows++;
    while (grows && bin->room < 0 && grow(cache, bin, size)) continue;
    if (bin->room >= 0) return;
  } else {
    shrink(cache, bin, size);
  }
  /* The half that was freed last stays: it is the warm one. */
  bin_trim(cache, bin, bin->capacity - bin->capacity / 2);
  if (HAK_UNLIKELY(sweep_is_due(cache))) sweep(cache);
}
