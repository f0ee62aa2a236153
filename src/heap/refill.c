/* refill.c - blocks out of the slabs into an empty bin: the slow path of malloc.
 *
 * A refill looks, in this order, at what came back to the thread's arena, at its slabs, at memory that
 * sleeps in other arenas, and only then asks for a new slab. Before it touches a new page it may take a block of a larger
 * class, or in a shared arena memory that sleeps in another arena.
 */
#include "heap/refill.h"

#include <limits.h>

#include "heap/adopt.h"
#include "heap/bins.h"
#include "heap/fallback.h"
#include "heap/homes.h"
#include "heap/purger.h"
#include "heap/remote.h"
#include "heap/slabs.h"
#include "observe/report.h"
#include "os/probe.h"
#include "policy/options.h"
#include "slab/holes.h"
#include "superslab/collapse.h"
#include "superslab/dirty.h"
#include "superslab/unit_os.h"

/* Of memory that is there already a refill carves so much: it touches no page for it, and there are fewer refills
 * (docs/decisions/0037). New pages are asked for in pieces of this, and of an eighth of what the class already has at most, so that
 * a small heap stays small (docs/decisions/0004). */
#define CARVED_MOST (16 * KIB)

/* A load comes back when RELEASE_LEAST came out of holes since the last one was made, and RELEASE_MOST are left in them. It gets new
 * huge pages then, with a seventh of the page faults that the small pages of holes take, until the slabs owned are so many
 * times what was ever in use at once. What keeps the old slabs will go by and by (docs/decisions/0015). */
enum { SPREAD_MOST = 3 };

/* A block with an alignment is hardly used if it is a quarter of what its class gives, in pages of its own. */
enum { SPARSE_PART = 4 };

/* --- out of slabs ----------------------------------------------------------------------------------------- */

static unsigned refill_blocks(unsigned size_class) {
  size_t blocks = REFILL_BYTES / class_size(size_class);
  return blocks > REFILL_BLOCKS ? REFILL_BLOCKS : blocks == 0 ? 1 : (unsigned)blocks;
}

static size_t populate_piece(struct arena *arena, const struct slab *slab) {
  if (slab_block_size(slab) > REFILL_BYTES) return 0;
  size_t others =
      atomic_load_explicit(&arena->classes[slab->size_class].count, memory_order_relaxed);
  size_t has = (others - 1) * SLICE_BYTES + slab_carved(slab) * slab_block_size(slab);
  return has / 8 < CARVED_MOST ? has / 8 : CARVED_MOST;
}

/* How many blocks to carve: `wanted`, or more where these touch no new page. */
static unsigned carve_blocks(const struct slab *slab, unsigned wanted, bool is_shared) {
  uint32_t size = slab_block_size(slab), at = slab_carved(slab) * size;
  uint32_t there = superslab_is_whole(superslab_of(slab)) ? (uint32_t)slab->slices << SLICE_SHIFT
                                                          : slab->touched;
  /* Each of many threads would keep more in its bins. */
  if (size > REFILL_BYTES || there <= at || is_shared) return wanted;
  uint32_t bytes = there - at < CARVED_MOST ? there - at : CARVED_MOST;
  unsigned blocks = bytes / size < REFILL_BLOCKS ? bytes / size : REFILL_BLOCKS;
  return blocks > wanted ? blocks : wanted;
}

/* The next partial slab: what was never used comes last. */
static struct slab *slab_to_use(struct arena *arena, unsigned size_class) {
  struct slab *slab = arena->classes[size_class].first;
  if (slab == NULL || slab->free_list != NULL || slab->next == NULL ||
      slab->next->free_list == NULL)
    return slab;
  slabs_unlist(arena, slab);
  slabs_enlist(arena, slab);
  return arena->classes[size_class].first;
}

/* Are new pages wanted rather than those that were given back? */
static bool prefers_fresh(const struct arena *arena) {
  return HAK_UNLIKELY(arena->recommitted_bytes >= RELEASE_LEAST) && !arena->growth_purged &&
         arena->decommitted_bytes >= RELEASE_MOST && slabs_owned(arena) >= HUGE_PAGES_FROM &&
         slabs_owned(arena) < SPREAD_MOST * arena->peak_committed && !option_value(SS_MEM_LEAN) &&
         option_value(SS_HUGEPAGE) == HUGEPAGE_THP;
}

bool refill_recommit(struct arena *arena, unsigned size_class) {
  struct slab *slab = arena->classes[size_class].decommitted;
  if (slab == NULL) return false;
  slabs_unlist(arena, slab);
  size_t before = slab_decommitted_bytes(slab);
  hole_open(slab);
  size_t opened = before - slab_decommitted_bytes(slab);
  arena->decommitted_bytes -= opened;
  slabs_count_free(arena, slab, slab_free_count(slab));
  unit_take(opened);
  arena->recommitted_bytes += opened;
  if (HAK_UNLIKELY(arena->growth_purged)) purger_growth_recommitted(arena);
  slabs_enlist(arena, slab);
  return true;
}

/* For calloc of large blocks: memory that was never touched need not be cleared, and a link in it would make a page resident. Of
 * small ones the program uses every page, and who reads a page before it writes to it pays for two faults, the second of which
 * stops its other threads (docs/decisions/0016). */
#define OWN_PAGES_FROM (16 * KIB)

void *refill_untouched(struct slab *slab, bool *zeroed) {
  if (zeroed == NULL || slab_block_size(slab) < OWN_PAGES_FROM) return NULL;
  void *block = slab_carve_untouched(slab);
  *zeroed = block != NULL;
  return block;
}

static unsigned carve_untouched(struct slab *slab, unsigned wanted, void **list, bool *zeroed) {
  if (wanted != 1 || *list != NULL) return 0;
  *list = refill_untouched(slab, zeroed);
  return *list != NULL;
}

/* A thread that shares its home begins with a sixteenth of a refill of each class, and doubles it each time. Otherwise each of many threads
 * that take a block of each class now and then would keep a page of each (docs/decisions/0040). */
enum { REFILLS_TO_FULL = 4 };

static unsigned first_refills(struct thread_cache *cache, unsigned size_class) {
  unsigned full = refill_blocks(size_class), refills = cache->use[size_class].refills;
  if (refills == REFILLS_TO_FULL) return full;
  cache->use[size_class].refills++;
  unsigned wanted = full >> (REFILLS_TO_FULL - refills);
  return wanted > 0 ? wanted : 1;
}

/* At least one block from the home's slabs, if there is one to be had without a new slab, and from partial ones on until a
 * refill's worth is there. */
static unsigned take_from_slabs(struct arena *arena, unsigned size_class, unsigned wanted,
                                void **list, bool *zeroed) {
  bool is_shared = homes_is_shared(arena);
  /* One that shares the slab leaves others some. */
  unsigned count = 0, most = !is_shared ? UINT_MAX : wanted == 1 ? 1 : 2 * wanted;
  *list = NULL;
  while (count < wanted) {
    struct slab *slab = slab_to_use(arena, size_class);
    if (slab == NULL) {
      if (count > 0 || prefers_fresh(arena) || !refill_recommit(arena, size_class)) break;
      continue;
    }
    void *blocks;
    unsigned taken = slab_take_list(slab, most, &blocks);
    slabs_count_free(arena, slab, -(int64_t)taken);
    if (taken > 0) {
      if (*list != NULL) link_set(link_last(blocks, taken), *list);
      *list = blocks;
      slabs_count(arena, size_class, COUNT_FROM_SLABS, taken);
    } else {
      taken = carve_untouched(slab, wanted, list, zeroed);
      if (taken == 0)
        taken = slab_carve(slab, carve_blocks(slab, wanted - count, is_shared),
                           populate_piece(arena, slab), list);
      slabs_count(arena, size_class, COUNT_CARVED, taken);
    }
    count += taken;
    slabs_list_again(arena, slab);
  }
  return count;
}

/* Classes whose blocks were asked for with little more than an alignment: a huge page would have most of them in memory for nothing. */
static atomic_bool sparse[CLASS_COUNT];

void refill_note_aligned(unsigned size_class, size_t size) {
  uint32_t bytes = class_size(size_class);
  /* relaxed: a hint. A look first, since the line is read by all threads */
  if (bytes >= OWN_PAGES_FROM && size <= bytes / SPARSE_PART &&
      !atomic_load_explicit(&sparse[size_class], memory_order_relaxed))
    atomic_store_explicit(&sparse[size_class], true, memory_order_relaxed);
}

static bool add_slab(struct arena *arena, unsigned size_class) {
  /* Others' spans in its SuperSlabs are not counted: half a unit of them is no reason for one more of small pages. */
  bool is_small = slabs_owned(arena) + UNIT_BYTES / 2 < HUGE_PAGES_FROM ||
                  atomic_load_explicit(&sparse[size_class], memory_order_relaxed);
  enum span_pages pages = is_small ? PAGES_SMALL : prefers_fresh(arena) ? PAGES_FRESH : PAGES_HUGE;
  struct slab *slab = slab_new(size_class, &arena->inboxes[size_class], pages);
  if (slab == NULL) return false;
  slabs_own(arena, slab);
  slabs_enlist(arena, slab);
  return true;
}

/* Makes a refill possible where the home has nothing left. What sleeps on another node comes last. */
static bool get_memory(struct arena *arena, unsigned size_class, bool is_own) {
  if (is_own) arena_set_node(arena, node_now());
  bool adopted = adopt_slabs(arena, size_class, false);
  if (!adopted) adopt_put_back(arena);
  if (!adopted && !add_slab(arena, size_class)) {
    /* What was put into slabs just now, or begun with, comes before what is given back. */
    if (arena->classes[size_class].first != NULL || arena->classes[size_class].drained != NULL ||
        refill_recommit(arena, size_class))
      return true;
    adopted = node_are_many() && adopt_slabs(arena, size_class, true);
    if (!adopted) return false;
  }
  slabs_count(arena, size_class, adopted ? COUNT_ADOPTED : COUNT_NEW_SLAB, 1);
  return true;
}

/* Blocks that go round between threads lose the order of their addresses, in which the processor foresees the next one. When RELEASE_MOST
 * wait in the arena, each refill of a class with STEAL_BATCHES of it first puts some thousand blocks back into slabs, until none of the class wait. Most
 * of the slabs become empty on the way, and are carved anew in order (docs/decisions/0034). A refill of larger ones takes few. A hint. */
static bool sort_is_due(const struct arena *arena, unsigned size_class) {
  bool begun = atomic_load_explicit(&arena->classes[size_class].sorts, memory_order_relaxed);
  if (HAK_LIKELY(!begun && slabs_waiting(arena) < RELEASE_MOST)) return false;
  return !homes_is_shared(arena) && class_size(size_class) <= TINY_MAX;
}

/* In short holds of the home's lock. Ends where a SuperSlab became empty, too: to give one back takes half a millisecond. */
static void sort_sent_back(struct thread_cache *cache, unsigned size_class) {
  struct arena *arena = cache->arena;
  atomic_bool *sorts = &arena->classes[size_class].sorts;
  bool more = true, emptied = false;
  for (unsigned i = 0; more && !emptied && i < HOLDS_MOST; i++) {
    lock_acquire(&arena->lock);
    more = (atomic_load_explicit(sorts, memory_order_relaxed) ||
            remote_has_batches(arena, size_class, STEAL_BATCHES)) &&
           slabs_put_batches(arena, size_class, true);
    atomic_store_explicit(sorts, more, memory_order_relaxed);
    emptied = superslab_is_unsettled();
    cache->deferred |= purger_is_due(arena) ? DEFERRED_PURGE : DEFERRED_CHECK;
    lock_release_in_turn(&arena->lock);
  }
  superslab_settle();
}

static unsigned take_sent_back(struct arena *arena, unsigned size_class, void **list) {
  unsigned count = remote_take_batch(arena, size_class, list);
  slabs_count(arena, size_class, COUNT_FROM_OTHERS, count);
  return count;
}

/* Would a refill touch a page that was not touched so far? Under the heap's lock. */
static bool needs_new_page(struct arena *arena, unsigned size_class) {
  const struct slab *slab = slab_to_use(arena, size_class);
  if (slab == NULL) return true;
  if (slab->free_list != NULL) return false;
  return (slab_carved(slab) + 1) * slab_block_size(slab) > slab->touched;
}

/* Under the home's lock. */
static unsigned take_blocks(struct arena *arena, unsigned size_class, unsigned wanted, void **list,
                            bool *zeroed) {
  unsigned count = take_sent_back(arena, size_class, list);
  return count > 0 ? count : take_from_slabs(arena, size_class, wanted, list, zeroed);
}

/* What is left of a list whose first block is taken. */
static void to_bin(struct bin *bin, void *first, unsigned count) {
  HAK_CHECK(bin->head == NULL);
  if (count > 1) bin->head = link_follow_on(first);
  bin->room -= (int32_t)count - 1;
}

/* What else is to be done after a refill that made the home grow, or opened what was given back. Under the home's lock. */
static unsigned deferred_after(struct arena *arena, bool grew) {
  if (!grew) return 0;
  unsigned deferred = DEFERRED_READY;
  if (HAK_UNLIKELY(purger_growth_is_due(arena))) deferred |= DEFERRED_GROWTH_PURGE;
  if (atomic_load_explicit(&collapse_owed, memory_order_relaxed) > 0) deferred |= DEFERRED_COLLAPSE;
  return deferred;
}

void *refill(struct thread_cache *cache, unsigned size_class, bool any_larger, bool *zeroed) {
  struct arena *arena = cache->arena;
  bool is_shared = homes_is_shared(arena), grew = false;
  unsigned wanted = is_shared ? first_refills(cache, size_class) : refill_blocks(size_class);
  void *list = NULL;
  cache->use[size_class].overflows = 0;
  cache->freed_in_a_row = 0;
  if (HAK_UNLIKELY(sort_is_due(arena, size_class))) sort_sent_back(cache, size_class);
  lock_acquire(&arena->lock);
  arena->classes[size_class].idle_scans = 0;
  unsigned count = take_sent_back(arena, size_class, &list);
  if (count == 0 && needs_new_page(arena, size_class)) {
    if (any_larger) list = fallback_take(cache, size_class);
    if (list == NULL) fallback_end(cache, size_class);
    /* Each block of this size is new pages. */
    if (list == NULL && is_shared && class_size(size_class) >= REFILL_BYTES) {
      if (adopt_slabs(arena, size_class, false)) count = take_sent_back(arena, size_class, &list);
    }
  }
  bool fell_back = count == 0 && list != NULL;
  if (count == 0 && !fell_back) count = take_from_slabs(arena, size_class, wanted, &list, zeroed);
  if (count == 0 && !fell_back && get_memory(arena, size_class, !cache_is_guest(cache))) {
    grew = true;
    count = take_blocks(arena, size_class, wanted, &list, zeroed);
    /* What was adopted may have no pages, when fresh ones are preferred. */
    if (count == 0 && refill_recommit(arena, size_class))
      count = take_from_slabs(arena, size_class, wanted, &list, zeroed);
  }
  cache->deferred |= (uint8_t)deferred_after(arena, grew);
  lock_release(&arena->lock);
  if (grew || list == NULL) superslab_settle();
  if (fell_back || list == NULL) return list;
  probe_refill(cache, class_size(size_class), count);
  to_bin(&cache->bins[size_class], list, count);
  cache->refilled += (size_t)count * class_size(size_class);
  return list;
}
