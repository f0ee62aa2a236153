/* refill.c - blocks out of the slabs into an empty bin: the slow path of malloc.
 *
 * A refill looks, in this order, at what others sent back, at the heap's own slabs, at memory that
 * sleeps in other heaps, and only then asks for a new slab. Before it touches a new page it may take blocks of a heap that
 * many share, a block of a larger class, or one of a common heap.
 */
#include "heap/refill.h"

#include "heap/adopt.h"
#include "heap/bins.h"
#include "heap/common.h"
#include "heap/engine.h"
#include "heap/loans.h"
#include "heap/remote.h"
#include "heap/share.h"
#include "heap/slabs.h"
#include "observe/report.h"
#include "os/probe.h"
#include "policy/options.h"
#include "slab/holes.h"
#include "superslab/dirty.h"
#include "superslab/unit_os.h"

/* A refill gathers this much, so that its cost spreads over several blocks, and carves no more than
 * this ahead: a class that is used little touches one page (docs/decisions/0002). */
#define REFILL_BYTES (4 * KIB)
enum { REFILL_BLOCKS = 64 };

/* Of memory that is there already so much is carved at once: no page is touched for it, and there are fewer refills
 * (docs/decisions/0037). */
#define CARVED_MOST (16 * KIB)

/* Pieces in which new pages are asked for: at most this, and at most an eighth of what the class
 * already has, so that a small heap stays small (docs/decisions/0004). */
#define POPULATE_MAX (16 * KIB)

/* So much came out of holes: worth a look of the release engine. */
#define REFILLED_BYTES (8 * MIB)

/* A load comes back when so much came out of holes since the last one was made, and so much is left in them. It gets new
 * huge pages then, with a seventh of the page faults that the small pages of holes take, until the slabs owned are so many
 * times what was ever in use at once: what keeps the old slabs will go by and by (docs/decisions/0015). */
#define COMES_BACK_BYTES (2 * MIB)
#define GIVEN_LEFT_BYTES (8 * MIB)
enum { SPREAD_MOST = 3 };

/* A block with an alignment is hardly used if it is a quarter of what its class gives, in pages of its own. */
enum { SPARSE_BLOCK_LEAST = 16 * KIB, SPARSE_PART = 4 };

/* --- out of slabs ----------------------------------------------------------------------------------------- */

static unsigned refill_blocks(unsigned size_class) {
  size_t blocks = REFILL_BYTES / class_size(size_class);
  return blocks > REFILL_BLOCKS ? REFILL_BLOCKS : blocks == 0 ? 1 : (unsigned)blocks;
}

static size_t populate_piece(struct heap *heap, const struct slab *slab) {
  if (slab_block_size(slab) > REFILL_BYTES) return 0;
  size_t others =
      atomic_load_explicit(&heap->classes[slab->size_class].count, memory_order_relaxed);
  size_t has = (others - 1) * SLICE_BYTES + slab_carved(slab) * slab_block_size(slab);
  return has / 8 < POPULATE_MAX ? has / 8 : POPULATE_MAX;
}

/* How many blocks to carve: `wanted`, or more where these touch no new page. */
static unsigned carve_blocks(const struct slab *slab, unsigned wanted) {
  uint32_t size = slab_block_size(slab), at = slab_carved(slab) * size;
  uint32_t there = superslab_is_whole(superslab_of(slab)) ? (uint32_t)slab->slices << SLICE_SHIFT
                                                          : slab->touched;
  /* Each of many heaps would keep more in its bins. */
  if (size > REFILL_BYTES || there <= at || heap_are_many()) return wanted;
  uint32_t bytes = there - at < CARVED_MOST ? there - at : CARVED_MOST;
  unsigned blocks = bytes / size < REFILL_BLOCKS ? bytes / size : REFILL_BLOCKS;
  return blocks > wanted ? blocks : wanted;
}

/* The next partial slab: what was never used comes last. */
static struct slab *slab_to_use(struct heap *heap, unsigned size_class) {
  struct slab *slab = heap->classes[size_class].first;
  if (slab == NULL || slab->free_list != NULL || slab->next == NULL ||
      slab->next->free_list == NULL)
    return slab;
  slabs_unlist(heap, slab);
  slabs_enlist(heap, slab);
  return heap->classes[size_class].first;
}

/* Are new pages wanted rather than those that were given back? */
static bool prefers_fresh(const struct heap *heap) {
  return HAK_UNLIKELY(heap->reopened_bytes >= COMES_BACK_BYTES) && !heap->traded &&
         heap->given_bytes >= GIVEN_LEFT_BYTES && slabs_owned(heap) >= HUGE_PAGES_FROM &&
         slabs_owned(heap) < SPREAD_MOST * heap->most_bytes && !option_value(SS_MEM_LEAN) &&
         option_value(SS_HUGEPAGE) == HUGEPAGE_THP;
}

bool refill_take_back(struct heap *heap, unsigned size_class) {
  struct slab *slab = heap->classes[size_class].given;
  if (slab == NULL) return false;
  slabs_unlist(heap, slab);
  size_t before = slab_given_bytes(slab);
  hole_open(slab);
  size_t opened = before - slab_given_bytes(slab);
  heap->given_bytes -= opened;
  slabs_count_free(heap, slab, slab_free_count(slab));
  heap->opened_bytes += opened;
  unit_take(opened);
  heap->reopened_bytes += opened;
  if (HAK_UNLIKELY(heap->traded)) engine_trade_back(heap);
  slabs_enlist(heap, slab);
  return true;
}

/* For calloc of large blocks: memory that was never touched need not be cleared, and a link in it would make a page resident. Of
 * small ones the program uses every page, and who reads a page before it writes to it pays for two faults, the second of which
 * stops its other threads (docs/decisions/0016). */
#define UNTOUCHED_LEAST (16 * KIB)

static unsigned carve_untouched(struct slab *slab, unsigned wanted, void **list, bool *zeroed) {
  if (zeroed == NULL || wanted != 1 || *list != NULL) return 0;
  if (slab_block_size(slab) < UNTOUCHED_LEAST) return 0;
  *list = slab_carve_untouched(slab);
  *zeroed = *list != NULL;
  return *zeroed;
}

/* At least one block from the heap's slabs, if there is one to be had without a new slab, and from partial ones on until a
 * refill's worth is there. */
static unsigned take_from_slabs(struct heap *heap, unsigned size_class, void **list, bool *zeroed) {
  unsigned wanted = refill_blocks(size_class), count = 0;
  *list = NULL;
  while (count < wanted) {
    struct slab *slab = slab_to_use(heap, size_class);
    if (slab == NULL) {
      if (count > 0 || prefers_fresh(heap) || !refill_take_back(heap, size_class)) break;
      continue;
    }
    void *blocks;
    unsigned taken = slab_take_list(slab, &blocks);
    slabs_count_free(heap, slab, -(int64_t)taken);
    if (taken > 0) {
      if (*list != NULL) link_set(link_last(blocks, taken), *list);
      *list = blocks;
      slabs_count(heap, size_class, COUNT_FROM_SLABS, taken);
    } else {
      taken = carve_untouched(slab, wanted, list, zeroed);
      if (taken == 0)
        taken =
            slab_carve(slab, carve_blocks(slab, wanted - count), populate_piece(heap, slab), list);
      slabs_count(heap, size_class, COUNT_CARVED, taken);
    }
    count += taken;
    if (slab_is_given(slab) || !slab_has_room(slab)) slabs_unlist(heap, slab);
    if (slab_is_given(slab)) slabs_enlist(heap, slab);
  }
  return count;
}

/* Classes whose blocks were asked for with little more than an alignment: a huge page would have most of them in memory for nothing. */
static atomic_bool sparse[CLASS_COUNT];

void refill_note_aligned(unsigned size_class, size_t size) {
  uint32_t bytes = class_size(size_class);
  /* relaxed: a hint. A look first, since the line is read by all threads */
  if (bytes >= SPARSE_BLOCK_LEAST && size <= bytes / SPARSE_PART &&
      !atomic_load_explicit(&sparse[size_class], memory_order_relaxed))
    atomic_store_explicit(&sparse[size_class], true, memory_order_relaxed);
}

static bool add_slab(struct heap *heap, unsigned size_class) {
  /* Others' spans in its SuperSlabs are not counted: half a unit of them is no reason for one more of small pages. */
  bool is_small = slabs_owned(heap) + UNIT_BYTES / 2 < HUGE_PAGES_FROM ||
                  atomic_load_explicit(&sparse[size_class], memory_order_relaxed);
  enum span_pages pages = is_small ? PAGES_SMALL : prefers_fresh(heap) ? PAGES_FRESH : PAGES_HUGE;
  struct slab *slab = slab_new(size_class, &heap->bins[size_class], pages);
  if (slab == NULL) return false;
  slabs_own(heap, slab);
  slabs_enlist(heap, slab);
  return true;
}

/* Makes a refill possible where the heap itself has nothing left. What sleeps on another node comes last. */
static bool get_memory(struct heap *heap, unsigned size_class) {
  heap_set_node(heap, node_now());
  bool adopted = adopt_slabs(heap, size_class, false);
  if (!adopted) adopt_room(ROOM_FOR_SLAB);
  if (!adopted && !add_slab(heap, size_class)) {
    if (refill_take_back(heap, size_class)) return true;
    adopted = node_are_many() && adopt_slabs(heap, size_class, true);
    if (!adopted) return false;
  }
  slabs_count(heap, size_class, adopted ? COUNT_ADOPTED : COUNT_NEW_SLAB, 1);
  return true;
}

/* Blocks that go round between threads lose the order of their addresses, in which the processor foresees the next one. When so
 * much waits in the heap, each refill of a class with SORT_BATCHES of it puts some thousand blocks back into slabs beside the batch
 * that it takes, until none of the class wait: most of the slabs become empty on the way, and are carved anew in order
 * (docs/decisions/0034). Not of more than SORT_MOST: of blocks in any order the last few empty nearly all SuperSlabs, and to give
 * one back takes half a millisecond. */
#define SORT_FROM ((int64_t)(4 * MIB))
#define SORT_MOST ((int64_t)(32 * MIB))
/* With more heaps too many slabs have blocks elsewhere as well, and do not become empty. */
enum { SORT_HOLDS = 8, SORT_BATCHES = 64, SORT_HEAPS_MOST = 2 * FEW_HEAPS };

static bool sort_is_due(struct heap *heap, unsigned size_class) {
  int64_t waits = atomic_load_explicit(&heap->inbox_bytes, memory_order_relaxed); /* a hint */
  if (HAK_LIKELY(waits < SORT_FROM && !heap->sorts[size_class])) return false;
  /* Blocks of the hardened variant are carved in any order, and a refill of larger ones takes few. */
  return !HAK_HARDENED && waits <= SORT_MOST && class_size(size_class) <= TINY_MAX &&
         heap_active() <= SORT_HEAPS_MOST &&
         (heap->sorts[size_class] || remote_has_batches(heap, size_class, SORT_BATCHES));
}

/* Under the heap's lock, which it lets go of between two holds. True: superslab_settle is to be called after it. */
static bool sort_sent_back(struct heap *heap, unsigned size_class) {
  bool due = sort_is_due(heap, size_class), more = due;
  for (unsigned i = 0; more && i < SORT_HOLDS; i++) {
    more = slabs_put_batches(heap, size_class);
    lock_release_in_turn(&heap->lock);
    lock_acquire(&heap->lock);
  }
  heap->sorts[size_class] = more;
  if (HAK_UNLIKELY(due)) heap->wants |= engine_is_due(heap) ? WANTS_ENGINE : WANTS_LOOK;
  return due;
}

static unsigned take_sent_back(struct heap *heap, unsigned size_class, void **list) {
  unsigned count = remote_take_batch(heap, size_class, list);
  slabs_count(heap, size_class, COUNT_FROM_OTHERS, count);
  return count;
}

/* Would a refill touch a page that was not touched so far? Under the heap's lock. */
static bool needs_new_page(struct heap *heap, unsigned size_class) {
  const struct slab *slab = slab_to_use(heap, size_class);
  if (slab == NULL) return true;
  if (slab->free_list != NULL) return false;
  return (slab_carved(slab) + 1) * slab_block_size(slab) > slab->touched;
}

/* What is left of a list whose first block is taken. */
static void to_bin(struct bin *bin, void *first, unsigned count) {
  HAK_CHECK(bin->head == NULL);
  if (count > 1) bin->head = link_follow_on(first);
  bin->room -= (int32_t)count - 1;
}

/* One block of those that all threads share. Its heap's bin, which is under the lock, is what was freed last. */
static void *take_common(struct heap *common, unsigned size_class, bool any_larger, bool *zeroed) {
  struct bin *bin = &common->bins[size_class];
  lock_acquire(&common->lock);
  common->quiet[size_class] = 0;
  void *block = bin_pop(bin);
  unsigned count = block != NULL ? 0 : take_sent_back(common, size_class, &block);
  if (block == NULL && needs_new_page(common, size_class)) {
    if (any_larger) block = loan_take(common, size_class);
    if (block == NULL) loan_end(common, size_class);
  }
  if (block == NULL) {
    count = take_from_slabs(common, size_class, &block, zeroed);
    if (count == 0 && (add_slab(common, size_class) || refill_take_back(common, size_class)))
      count = take_from_slabs(common, size_class, &block, zeroed);
  }
  if (count > 0) to_bin(bin, block, count);
  lock_release(&common->lock);
  superslab_settle();
  return block;
}

/* NULL: nothing is to be had there. The caller holds no lock. */
static void *rent(struct heap *heap, unsigned size_class, bool any_larger, bool *zeroed) {
  common_rent(heap, size_class);
  struct heap *common = common_heap(size_class);
  return common != NULL ? take_common(common, size_class, any_larger, zeroed) : NULL;
}

/* A thread that comes for the rest of a refill would soon have come too often; to link blocks of many batches takes time, under a lock that
 * others wait for. */
enum { SHORT_PART = 4 };

/* Batches that others sent, more than one where they are short. */
static unsigned take_batches(struct heap *from, unsigned size_class, unsigned wanted, void **list) {
  unsigned count = take_sent_back(from, size_class, list);
  while (count > 0 && count < wanted / SHORT_PART) {
    void *more;
    unsigned taken = take_sent_back(from, size_class, &more);
    if (taken == 0) break;
    link_set(link_last(more, taken), *list);
    *list = more;
    count += taken;
  }
  return count;
}

/* Of many blocks, as a slab may have free, all but `wanted` into the bin of a heap that many share, which is empty. */
static unsigned keep_rest(struct bin *bin, void *list, unsigned count, unsigned wanted) {
  if (count < 2 * wanted) return count;
  void *last = list;
  for (unsigned i = 1; i < wanted; i++) last = link_follow_on(last);
  bin->head = link_follow_on(last);
  bin->room = (int32_t)bin->capacity - (int32_t)(count - wanted);
  link_set(last, NULL);
  return wanted;
}

/* About `wanted` blocks of a heap that many share; 0: nothing is to be had there. The caller holds no lock. */
static unsigned take_shared(struct heap *from, unsigned size_class, unsigned wanted, void **list,
                            bool *grows) {
  struct bin *bin = &from->bins[size_class];
  lock_acquire(&from->lock);
  from->quiet[size_class] = 0;
  unsigned count = bin_take_all(bin, list); /* what was left over last time */
  if (count == 0) count = take_batches(from, size_class, wanted, list);
  if (count == 0) count = take_from_slabs(from, size_class, list, NULL);
  if (count == 0 && get_memory(from, size_class)) {
    *grows = true;
    count = take_batches(from, size_class, wanted, list);
    if (count == 0) count = take_from_slabs(from, size_class, list, NULL);
  }
  count = keep_rest(bin, *list, count, wanted);
  lock_release(&from->lock);
  superslab_settle();
  return count;
}

/* Into the bin of the thread, but for the block that is returned; NULL: nothing is to be had there. The caller holds no lock. */
static void *refill_shared(struct heap *heap, unsigned size_class) {
  struct heap *from = share_heap(heap, size_class);
  if (from == NULL) return NULL;
  void *list = NULL;
  bool grows = false;
  unsigned count = take_shared(from, size_class, refill_blocks(size_class), &list, &grows);
  if (list == NULL) return NULL;
  probe_refill(from, class_size(size_class), count);
  to_bin(&heap->bins[size_class], list, count);
  if (grows) heap->wants |= WANTS_READY;
  return list;
}

void *refill(struct heap *heap, unsigned size_class, bool any_larger, bool *zeroed) {
  struct bin *bin = &heap->bins[size_class];
  void *list = NULL;
  heap->overflows[size_class] = 0;
  lock_acquire(&heap->lock);
  heap->quiet[size_class] = 0;
  heap->freed_in_a_row = 0;
  bool grows = false;
  bool sorted = sort_sent_back(heap, size_class);
  unsigned count = take_sent_back(heap, size_class, &list);
  bool new_page = count == 0 && needs_new_page(heap, size_class);
  if (new_page && HAK_UNLIKELY(share_wanted(heap, size_class))) {
    lock_release(&heap->lock);
    if ((list = refill_shared(heap, size_class)) != NULL) return list;
    lock_acquire(&heap->lock);
    count = take_sent_back(heap, size_class, &list);
  }
  if (count == 0 && new_page) {
    if (any_larger && (list = loan_take(heap, size_class)) != NULL) {
      lock_release(&heap->lock);
      if (HAK_UNLIKELY(sorted)) superslab_settle();
      return list;
    }
    loan_end(heap, size_class);
    if (HAK_UNLIKELY(common_wanted(heap, size_class))) {
      lock_release(&heap->lock);
      if ((list = rent(heap, size_class, any_larger, zeroed)) != NULL) return list;
      /* Memory is short: slabs of its own and those that sleep may have some. Others may have sent something meanwhile. */
      lock_acquire(&heap->lock);
      count = take_sent_back(heap, size_class, &list);
    }
  }
  if (count == 0) count = take_from_slabs(heap, size_class, &list, zeroed);
  if (count == 0 && get_memory(heap, size_class)) {
    grows = true;
    count = take_sent_back(heap, size_class, &list);
    if (count == 0) count = take_from_slabs(heap, size_class, &list, zeroed);
  }
  bool trades = grows && engine_trade_is_due(heap);
  lock_release(&heap->lock);
  if (grows || sorted || count == 0) superslab_settle();
  if (count == 0) return NULL;
  probe_refill(heap, class_size(size_class), count);
  to_bin(bin, list, count);
  /* A load came back: huge pages that were broken up are wanted again. */
  if (HAK_UNLIKELY(heap->opened_bytes >= REFILLED_BYTES)) {
    heap->opened_bytes = 0;
    heap->wants |= WANTS_ENGINE;
  }
  if (grows) heap->wants |= WANTS_READY;
  if (HAK_UNLIKELY(trades)) heap->wants |= WANTS_TRADE;
  return list;
}
