/* refill.c - blocks between the bins and the slabs: the slow path of malloc and free.
 *
 * A refill looks, in this order, at what others sent back, at the heap's own slabs, at memory that
 * sleeps in other heaps, and only then asks for a new slab. Before it touches a new page it may take a block of a
 * larger class.
 */
#include "front/fast.h"
#include "front/release.h"
#include "observe/report.h"
#include "policy/options.h"
#include "slab/holes.h"

/* A refill gathers this much, so that its cost spreads over several blocks, and carves no more than
 * this ahead: a class that is used little touches one page (docs/decisions/0002). */
#define REFILL_BYTES (4 * KIB)
enum { REFILL_BLOCKS = 64 };

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

/* Of the heaps at most so many are looked at for a slab, the others next time: a cache miss each, under the own lock. */
enum { ADOPT_SLABS = 2, ADOPT_HEAPS = 16, ADOPT_LOOKS = 128 };

/* A block that goes back into its slab is a cache miss or two, so many are some 0.1 ms: for as long another thread may have
 * to wait for the heap's lock. */
enum { BLOCKS_A_HOLD = 512 };
/* The same for slabs that are looked at in a list. */
enum { SLABS_A_HOLD = 64 };

/* --- lists of slabs with free blocks; all under heap->lock -------------------------------------------------- */

void front_unlist(struct heap *heap, struct slab *slab) {
  struct class_slabs *slabs = &heap->classes[slab->size_class];
  if (slabs->next_look == slab) slabs->next_look = slab->next;
  bool partial = slab->listed == LIST_PARTIAL;
  if (slab->prev != NULL) slab->prev->next = slab->next;
  else if (partial) slabs->first = slab->next;
  else slabs->given = slab->next;
  if (slab->next != NULL) slab->next->prev = slab->prev;
  else if (partial) slabs->last = slab->prev;
  slab->next = slab->prev = NULL;
  slab->listed = LIST_NONE;
}

static void enlist_given(struct class_slabs *slabs, struct slab *slab) {
  slab->prev = NULL;
  slab->next = slabs->given;
  if (slab->next != NULL) slab->next->prev = slab;
  slabs->given = slab;
  slab->listed = LIST_GIVEN;
}

/* At the end: a slab that just got its first block back is used last, and fills up meanwhile. */
void front_enlist(struct heap *heap, struct slab *slab) {
  struct class_slabs *slabs = &heap->classes[slab->size_class];
  if (HAK_UNLIKELY(slab_is_given(slab))) {
    enlist_given(slabs, slab);
    return;
  }
  slab->prev = slabs->last;
  slab->next = NULL;
  if (slabs->last != NULL) slabs->last->next = slab;
  else slabs->first = slab;
  slabs->last = slab;
  slab->listed = LIST_PARTIAL;
}

static size_t owned_bytes(const struct heap *heap) {
  return atomic_load_explicit(&heap->slab_bytes, memory_order_relaxed);
}

static size_t free_bytes_of(const struct slab *slab) {
  return (size_t)slab_free_count(slab) * slab_block_size(slab);
}

static void own(struct heap *heap, struct slab *slab) {
  atomic_fetch_add_explicit(&heap->classes[slab->size_class].count, 1, memory_order_relaxed);
  atomic_fetch_add_explicit(&heap->slab_bytes, (size_t)slab->slices << SLICE_SHIFT,
                            memory_order_relaxed);
  heap->free_bytes += free_bytes_of(slab);
  heap->given_bytes += slab_given_bytes(slab);
  size_t in_memory = owned_bytes(heap) - heap->given_bytes;
  if (in_memory > heap->most_bytes) heap->most_bytes = in_memory;
}

static void disown(struct heap *heap, struct slab *slab) {
  if (slab->listed != LIST_NONE) front_unlist(heap, slab);
  atomic_fetch_sub_explicit(&heap->classes[slab->size_class].count, 1, memory_order_relaxed);
  atomic_fetch_sub_explicit(&heap->slab_bytes, (size_t)slab->slices << SLICE_SHIFT,
                            memory_order_relaxed);
  heap->free_bytes -= free_bytes_of(slab);
  heap->given_bytes -= slab_given_bytes(slab);
}

void front_release_slab(struct heap *heap, struct slab *slab) {
  disown(heap, slab);
  slab_release(slab);
}

/* --- back into slabs ------------------------------------------------------------------------------------ */

/* The slab changed owners while they were under way. */
static HAK_COLD void put_elsewhere(struct bin *bin, void *first, unsigned count) {
  if (bin == NULL) report_bad_pointer("free", first, REPORT_DOUBLE_FREE);
  for (void *next; count > 0; count--, first = next) {
    next = *(void **)first;
    remote_free_now(bin, first);
  }
}

/* `count` blocks of one slice, linked from `first` to `last`. */
static void put_run(struct heap *heap, void *first, void *last, unsigned count, bool keep_last) {
  struct slab *slab = slab_head(map_slab(first));
  struct bin *bin = map_bin(first);
  if (HAK_UNLIKELY(!heap_has_bin(heap, bin))) {
    put_elsewhere(bin, first, count);
    return;
  }
  slab_put(slab, first, last, count);
  heap->free_bytes += (size_t)count * slab_block_size(slab);
  if (slab->purging) return; /* purge_end's caller lists or releases it */
  if (slab_is_empty(slab)) {
    /* One slab a class stays, so that a program at the edge of one does not map and unmap it. */
    bool last_slab =
        atomic_load_explicit(&heap->classes[slab->size_class].count, memory_order_relaxed) == 1;
    if (!(last_slab && keep_last)) {
      front_release_slab(heap, slab);
      return;
    }
  }
  if (slab->listed == LIST_GIVEN) front_unlist(heap, slab);
  if (slab->listed == LIST_NONE) front_enlist(heap, slab);
}

/* For the observe variant alone: what a refill consists of. */
static void count_stage(struct heap *heap, unsigned size_class, enum counter which, uint64_t n) {
  if (HAK_OBSERVE) heap_count(heap, size_class, which, n);
}

void heap_put_block(struct heap *heap, void *block) { put_run(heap, block, block, 1, true); }

/* Takes blocks off the list and puts them back, BLOCKS_A_HOLD and what is left of the last run; returns how many.
 * Blocks that were freed one after the other often lie in one slab: such a run goes back as it is linked. A block that
 * was freed twice may link a list to itself: a run ends where no slice has more blocks, and slab_put finds them too many. */
static unsigned put_some(struct heap *heap, void **list, bool keep_last) {
  void *next = *list;
  unsigned put = 0;
  while (next != NULL && put < BLOCKS_A_HOLD) {
    void *first = next, *last;
    unsigned count = 0;
    do {
      last = next;
      next = *(void **)last;
      count++;
    } while (next != NULL && ((uintptr_t)next ^ (uintptr_t)first) >> SLICE_SHIFT == 0 &&
             count < SLICE_BYTES / BLOCK_ALIGNMENT);
    put_run(heap, first, last, count, keep_last);
    put += count;
  }
  *list = next;
  return put;
}

/* What a bin of the calling thread held, or a part of it. Lets go of the lock, which the caller holds, now and then. */
static void put_from_bin(struct heap *heap, unsigned size_class, void *list, bool keep_last) {
  for (;;) {
    count_stage(heap, size_class, COUNT_TO_SLABS, put_some(heap, &list, keep_last));
    if (HAK_LIKELY(list == NULL)) return;
    lock_release_in_turn(&heap->lock);
    lock_acquire(&heap->lock);
  }
}

bool front_put_batches(struct heap *heap, unsigned size_class) {
  void *list;
  for (unsigned put = 0, count; put < BLOCKS_A_HOLD; put += count) {
    count = remote_take_batch(heap, size_class, &list);
    if (count == 0) return false;
    while (list != NULL) (void)put_some(heap, &list, true);
  }
  return true;
}

/* The same of a parked heap's bin, for a thread that holds its lock. */
static void put_parked_bin(struct heap *heap, unsigned size_class) {
  struct bin *bin = &heap->bins[size_class];
  unsigned put = put_some(heap, &bin->head, true);
  bin->room += (int32_t)put;
  count_stage(heap, size_class, COUNT_TO_SLABS, put);
}

void heap_drain_bins(struct heap *heap) {
  for (unsigned c = 0; c < CLASS_COUNT; c++) {
    struct bin *bin = &heap->bins[c];
    void *list = bin->head;
    if (list == NULL) continue;
    bin->head = NULL;
    bin->room = (int32_t)bin->capacity;
    lock_acquire(&heap->lock);
    put_from_bin(heap, c, list, false);
    lock_release(&heap->lock);
    superslab_settle();
  }
}

/* --- out of slabs ----------------------------------------------------------------------------------------- */

static unsigned refill_blocks(const struct heap *heap, unsigned size_class) {
  unsigned shift = heap->learner.refill_shift[size_class]; /* 0 unless it learns */
  size_t blocks = (REFILL_BYTES << shift) / class_size(size_class);
  size_t most = (size_t)REFILL_BLOCKS << shift;
  return blocks > most ? (unsigned)most : blocks == 0 ? 1 : (unsigned)blocks;
}

static size_t populate_piece(struct heap *heap, const struct slab *slab) {
  if (slab_block_size(slab) > REFILL_BYTES) return 0;
  size_t others =
      atomic_load_explicit(&heap->classes[slab->size_class].count, memory_order_relaxed);
  size_t has = (others - 1) * SLICE_BYTES + slab_carved(slab) * slab_block_size(slab);
  return has / 8 < POPULATE_MAX ? has / 8 : POPULATE_MAX;
}

static void *last_of(void *list) {
  while (*(void **)list != NULL) list = *(void **)list;
  return list;
}

/* The next partial slab: what was never used comes last. */
static struct slab *slab_to_use(struct heap *heap, unsigned size_class) {
  struct slab *slab = heap->classes[size_class].first;
  if (slab == NULL || slab->free_list != NULL || slab->next == NULL ||
      slab->next->free_list == NULL)
    return slab;
  front_unlist(heap, slab);
  front_enlist(heap, slab);
  return heap->classes[size_class].first;
}

/* Are new pages wanted rather than those that were given back? */
static bool prefers_fresh(const struct heap *heap) {
  return HAK_UNLIKELY(heap->reopened_bytes >= COMES_BACK_BYTES) &&
         heap->given_bytes >= GIVEN_LEFT_BYTES && owned_bytes(heap) >= HUGE_PAGES_FROM &&
         owned_bytes(heap) < SPREAD_MOST * heap->most_bytes && !option_value(SS_MEM_LEAN) &&
         option_value(SS_HUGEPAGE) == HUGEPAGE_THP;
}

/* Makes a slab whose pages were given back a partial one; false: there is none. */
static bool take_back(struct heap *heap, unsigned size_class) {
  struct slab *slab = heap->classes[size_class].given;
  if (slab == NULL) return false;
  front_unlist(heap, slab);
  size_t before = slab_given_bytes(slab);
  hole_open(slab);
  size_t opened = before - slab_given_bytes(slab);
  heap->given_bytes -= opened;
  heap->free_bytes += free_bytes_of(slab);
  heap->opened_bytes += opened;
  heap->reopened_bytes += opened;
  front_enlist(heap, slab);
  return true;
}

/* For calloc, where one block is a refill: memory that was never touched need not be cleared, and a link in it would
 * make a page resident. */
static unsigned carve_untouched(struct slab *slab, unsigned wanted, void **list, bool *zeroed) {
  if (zeroed == NULL || wanted != 1 || *list != NULL) return 0;
  *list = slab_carve_untouched(slab);
  *zeroed = *list != NULL;
  return *zeroed;
}

/* At least one block from the heap's slabs, if there is one to be had without a new slab, and from partial ones on until a
 * refill's worth is there. */
static unsigned take_from_slabs(struct heap *heap, unsigned size_class, void **list, bool *zeroed) {
  unsigned wanted = refill_blocks(heap, size_class), count = 0;
  *list = NULL;
  while (count < wanted) {
    struct slab *slab = slab_to_use(heap, size_class);
    if (slab == NULL) {
      if (count > 0 || prefers_fresh(heap) || !take_back(heap, size_class)) break;
      continue;
    }
    void *blocks;
    heap->free_bytes -= free_bytes_of(slab);
    unsigned taken = slab_take_list(slab, &blocks);
    if (taken > 0) {
      if (*list != NULL) *(void **)last_of(blocks) = *list;
      *list = blocks;
      count_stage(heap, size_class, COUNT_FROM_SLABS, taken);
    } else {
      taken = carve_untouched(slab, wanted, list, zeroed);
      if (taken == 0) taken = slab_carve(slab, wanted - count, populate_piece(heap, slab), list);
      count_stage(heap, size_class, COUNT_CARVED, taken);
    }
    count += taken;
    if (slab_is_given(slab) || !slab_has_room(slab)) front_unlist(heap, slab);
    if (slab_is_given(slab)) front_enlist(heap, slab);
  }
  return count;
}

static void take_slab(struct heap *heap, struct heap *from, struct slab *slab) {
  disown(from, slab);
  slab_set_bin(slab, &heap->bins[slab->size_class]);
  own(heap, slab);
  front_enlist(heap, slab);
}

/* Slabs with room out of another heap, whose lock the caller holds as well as its own. */
static unsigned take_slabs(struct heap *heap, struct heap *from, unsigned size_class, bool parked) {
  struct class_slabs *slabs = &from->classes[size_class];
  unsigned taken = 0;
  struct slab *next;
  unsigned looked = 0;
  for (struct slab *slab = slabs->first;
       slab != NULL && taken < ADOPT_SLABS && looked < SLABS_A_HOLD; slab = next, looked++) {
    next = slab->next;
    if (slab->free_list == NULL && !parked) continue; /* uncarved room: its owner will use it */
    take_slab(heap, from, slab);
    taken++;
  }
  for (; parked && slabs->given != NULL && taken < ADOPT_SLABS; taken++)
    take_slab(heap, from, slabs->given);
  return taken;
}

/* Takes one heap's memory of the class, if it sleeps and its lock is free. `*asked`: it was worth an attempt. */
static bool adopt_from(struct heap *heap, struct heap *from, unsigned size_class, bool *asked) {
  bool parked = atomic_load_explicit(&from->state, memory_order_relaxed) == HEAP_PARKED;
  bool sleeping =
      atomic_load_explicit(&from->inbox_bytes, memory_order_relaxed) >= SLEEPING_INBOX_BYTES;
  *asked = (parked || sleeping) &&
           atomic_load_explicit(&from->classes[size_class].count, memory_order_relaxed) > 0;
  if (!*asked || !lock_try(&from->lock)) return false;
  /* A large pile is taken as it is: sorting it into slabs would cost more than their locality gains. */
  if (remote_steal(heap, from, size_class)) {
    lock_release(&from->lock);
    return true;
  }
  (void)front_put_batches(from, size_class);
  /* Read again under the lock: only now is a parked heap sure to stay parked. */
  parked = atomic_load_explicit(&from->state, memory_order_relaxed) == HEAP_PARKED;
  if (parked) put_parked_bin(from, size_class);
  unsigned taken = take_slabs(heap, from, size_class, parked);
  lock_release(&from->lock);
  return taken > 0;
}

/* Takes over slabs that sleep in other heaps: of ended threads, or of threads that look away while
 * their inbox grows. Only tries locks, so two heaps that adopt from each other cannot deadlock. */
static bool adopt(struct heap *heap, unsigned size_class) {
  unsigned asked_in_all = 0, looks = 0;
  if (!heap_any_sleeps()) return false;
  struct heap *start = heap->adopt_from != NULL ? heap->adopt_from : heap_first(), *from = start;
  bool taken = false;
  do {
    bool asked = false;
    taken = from != heap && adopt_from(heap, from, size_class, &asked);
    asked_in_all += asked;
    if (taken) break; /* it may have more */
    from = from->next != NULL ? from->next : heap_first();
  } while (from != start && asked_in_all < ADOPT_HEAPS && ++looks < ADOPT_LOOKS);
  heap->adopt_from = from;
  return taken;
}

static bool add_slab(struct heap *heap, unsigned size_class) {
  enum span_pages pages = owned_bytes(heap) < HUGE_PAGES_FROM ? PAGES_SMALL
                          : prefers_fresh(heap)               ? PAGES_FRESH
                                                              : PAGES_HUGE;
  struct slab *slab = slab_new(size_class, &heap->bins[size_class], pages);
  if (slab == NULL) return false;
  own(heap, slab);
  front_enlist(heap, slab);
  return true;
}

/* Makes a refill possible where the heap itself has nothing left. */
static bool get_memory(struct heap *heap, unsigned size_class) {
  bool adopted = adopt(heap, size_class);
  if (!adopted && !add_slab(heap, size_class)) return take_back(heap, size_class);
  count_stage(heap, size_class, adopted ? COUNT_ADOPTED : COUNT_NEW_SLAB, 1);
  return true;
}

static unsigned take_sent_back(struct heap *heap, unsigned size_class, void **list) {
  unsigned count = remote_take_batch(heap, size_class, list);
  count_stage(heap, size_class, COUNT_FROM_OTHERS, count);
  return count;
}

/* The blocks in use of a class vary at random, and each new record takes a block more, and a page now and then:
 * ever more slowly, and without end. A free block of one of the next larger classes serves as well, and costs no
 * page (docs/decisions/0013). Not more than so many in a row, one more each so many milliseconds, and none
 * after a new page until that time has passed: a program that grows gets blocks of the right size, and a
 * class that grew for good does not have to come here for each block. */
enum { LOANS_MOST = 16, LOAN_MS = 16, LENDERS = 4 };

/* A new block of 4 KiB or more is new pages each time, and of each such class a heap would in time hold the most that
 * was ever in use at once. These classes borrow for as long as touching a block of their own would take, 512 bytes a
 * loan. Who rents until buying would have cost as much, and then buys, pays at most twice the least that
 * was possible, whatever comes (Karlin and others, "Competitive snoopy caching", 1988). */
#define OWN_LOANS_FROM ((size_t)4 * KIB)
#define BYTES_A_LOAN ((size_t)512)
_Static_assert(SMALL_MAX / BYTES_A_LOAN <= UINT8_MAX, "heap->borrowed holds as many");

static bool has_own_loans(unsigned size_class) { return class_size(size_class) >= OWN_LOANS_FROM; }

static bool may_borrow(struct heap *heap, unsigned size_class) {
  if (has_own_loans(size_class))
    return heap->borrowed[size_class] < class_size(size_class) / BYTES_A_LOAN;
  if (heap->loans > 0) return true;
  uint64_t now = os_clock_ms();
  if (now < heap->loans_since + LOAN_MS) return false;
  uint64_t more = (now - heap->loans_since) / LOAN_MS;
  heap->loans = more < LOANS_MOST ? (uint8_t)more : LOANS_MOST;
  heap->loans_since = now;
  return true;
}

/* A free block of a larger class out of the heap's bins. It returns to its own. */
static void *borrow(struct heap *heap, unsigned size_class) {
  size_t most = (size_t)class_size(size_class) * 2;
  for (unsigned c = size_class; c < CLASS_COUNT - 1 && c < size_class + LENDERS;) {
    if (class_size(++c) > most) break;
    void *block = bin_pop(&heap->bins[c]);
    if (block == NULL) continue;
    if (has_own_loans(size_class)) heap->borrowed[size_class]++;
    else heap->loans--;
    return block;
  }
  return NULL;
}

/* A new page is about to be touched. */
static void end_loans(struct heap *heap, unsigned size_class) {
  if (has_own_loans(size_class)) {
    heap->borrowed[size_class] = 0;
  } else {
    heap->loans = 0;
    heap->loans_since = os_clock_ms();
  }
}

/* Would a refill touch a page that was not touched so far? Under the heap's lock. */
static bool needs_new_page(struct heap *heap, unsigned size_class) {
  const struct slab *slab = slab_to_use(heap, size_class);
  if (slab == NULL) return true;
  if (slab->free_list != NULL) return false;
  return (slab_carved(slab) + 1) * slab_block_size(slab) > slab->touched;
}

void *front_refill(struct heap *heap, unsigned size_class, bool any_larger, bool *zeroed) {
  struct bin *bin = &heap->bins[size_class];
  void *list = NULL;
  heap->overflows[size_class] = 0;
  if (option_value(LEARN)) learn_refill(heap, size_class);
  lock_acquire(&heap->lock);
  heap->quiet[size_class] = 0;
  heap->freed_in_a_row = 0;
  bool grows = false;
  unsigned count = take_sent_back(heap, size_class, &list);
  if (count == 0 && needs_new_page(heap, size_class)) {
    if (any_larger && may_borrow(heap, size_class) && (list = borrow(heap, size_class)) != NULL) {
      lock_release(&heap->lock);
      return list;
    }
    end_loans(heap, size_class);
  }
  if (count == 0) count = take_from_slabs(heap, size_class, &list, zeroed);
  if (count == 0 && get_memory(heap, size_class)) {
    grows = true;
    count = take_sent_back(heap, size_class, &list);
    if (count == 0) count = take_from_slabs(heap, size_class, &list, zeroed);
  }
  lock_release(&heap->lock);
  if (grows || count == 0) superslab_settle();
  if (count == 0) return NULL;
  HAK_CHECK(bin->head == NULL);
  if (count > 1) bin->head = *(void **)list;
  bin->room -= (int32_t)count - 1;
  if (HAK_UNLIKELY(heap->opened_bytes >= REFILLED_BYTES)) {
    heap->opened_bytes = 0;
    release_wake(); /* a load came back: huge pages that were broken up are wanted again */
  }
  if (grows) release_get_ready();
  return list;
}

/* --- bins that run over ------------------------------------------------------------------------------------- */

/* A bin starts at half a page and doubles while frees outrun allocations, up to 256 KiB or 32 blocks;
 * with 16 KiB as the limit mid sizes took 35% longer. All bins of a heap together may hold 8 MiB, or
 * an eighth of what the heap owns if that is more: 1 MiB cost mid sizes a third of their time, and less
 * than 8 MiB costs them memory, since blocks then go round through more slabs (docs/decisions/0002). */
#define FIRST_CAPACITY_BYTES (2 * KIB)
#define CAPACITY_BYTES (256 * KIB)
enum { FIRST_BLOCKS_LEAST = 4, CAPACITY_BLOCKS = 32 };

void front_halve(struct heap *heap, struct bin *bin) {
  uint32_t less = bin->capacity / 2;
  bin->capacity -= less;
  bin->room -= (int32_t)less;
  heap->bin_budget_used -= (size_t)less * class_size((unsigned)(bin - heap->bins));
}

void front_trim(struct heap *heap, struct bin *bin, uint32_t keep) {
  void **link = &bin->head;
  uint32_t kept = 0;
  for (; kept < keep; kept++) link = *link;
  void *cold = *link;
  *link = NULL;
  uint32_t held = (uint32_t)((int32_t)bin->capacity - bin->room);
  heap->freed_in_a_row += (size_t)(held - kept) * class_size((unsigned)(bin - heap->bins));
  bin->room = (int32_t)(bin->capacity - kept);
  lock_acquire(&heap->lock);
  heap->quiet[bin - heap->bins] = 0;
  put_from_bin(heap, (unsigned)(bin - heap->bins), cold, true);
  bool due = release_is_due(heap);
  lock_release(&heap->lock);
  superslab_settle();
  if (HAK_UNLIKELY(due)) release_wake();
  else release_check_below(); /* slabs that became empty are slices now */
}

/* The bins of threads that sleep stay as they are. So many threads share what four may keep: 100 that had freed 40 blocks of
 * up to 60 KiB each, and slept, kept 129 MB (with glibc 92 to 100). For 8 threads it costs 1% to 3% of their time. */
enum { MANY_SHARE = 4 };
#define SHARED_BUDGET_LEAST (256 * KIB)

static size_t budget_of(const struct heap *heap, bool *many) {
  uint64_t active, parked;
  heap_counts(&active, &parked);
  size_t budget = (size_t)option_value(BINS_KB) * KIB;
  *many = active > FEW_HEAPS;
  if (*many) {
    size_t least = budget < SHARED_BUDGET_LEAST ? budget : SHARED_BUDGET_LEAST;
    budget = budget * MANY_SHARE / active;
    if (budget < least) budget = least;
  }
  size_t share = option_value(SS_MEM_LEAN) ? 0 : owned_bytes(heap) / 8;
  return share > budget ? share : budget;
}

/* A bin's first capacity is had beyond the budget; with many heaps, not for blocks that take more time to write than to get. */
#define BEYOND_BUDGET_BYTES (8 * KIB)

static bool grow(struct heap *heap, struct bin *bin, uint32_t size) {
  uint32_t more = bin->capacity;
  if (more == 0) {
    more = (uint32_t)(FIRST_CAPACITY_BYTES / size);
    if (more < FIRST_BLOCKS_LEAST) more = FIRST_BLOCKS_LEAST;
  }
  uint32_t capacity = bin->capacity + more;
  if (capacity > CAPACITY_BLOCKS && (size_t)capacity * size > CAPACITY_BYTES) return false;
  bool many;
  size_t budget = budget_of(heap, &many);
  size_t used = heap->bin_budget_used + (size_t)more * size;
  bool always = bin->capacity == 0 && (!many || (size_t)more * size <= BEYOND_BUDGET_BYTES);
  if (!always && used > budget) {
    if (!option_value(LEARN) || !learn_reclaim(heap, (unsigned)(bin - heap->bins))) return false;
    used = heap->bin_budget_used + (size_t)more * size;
    if (used > budget) return false;
  }
  heap->bin_budget_used = used;
  bin->capacity = capacity;
  bin->room += (int32_t)more;
  return true;
}

/* A program that only frees: what its bins gather is cold when they run over, and then each block is
 * fetched into the cache twice more. Small bins return blocks while they are warm: freeing 90% of 256 MB at
 * random took half of the time (docs/decisions/0002). */
#define FREEING_BYTES (8 * KIB)
enum { OVERFLOWS_GROW = 4, FREEING_BLOCKS_LEAST = 2 };

static void shrink(struct heap *heap, struct bin *bin, uint32_t size) {
  uint32_t least = (uint32_t)(FREEING_BYTES / size);
  if (least < FREEING_BLOCKS_LEAST) least = FREEING_BLOCKS_LEAST;
  if (bin->capacity - bin->capacity / 2 >= least) front_halve(heap, bin);
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
    while (bin->capacity / 2 >= least) front_halve(heap, bin);
    heap->overflows[c] = OVERFLOWS_GROW; /* it stays small until a refill finds it empty */
    if (bin->room < 0) front_trim(heap, bin, bin->capacity);
  }
}

void front_overflow(struct heap *heap, struct bin *bin) {
  unsigned size_class = (unsigned)(bin - heap->bins);
  uint32_t size = class_size(size_class);
  if (option_value(LEARN)) learn_overflow(heap, size_class);
  if (heap->overflows[size_class] < OVERFLOWS_GROW) {
    heap->overflows[size_class]++;
    while (bin->room < 0)
      if (!grow(heap, bin, size)) break;
    if (bin->room >= 0) return;
  } else {
    shrink(heap, bin, size);
  }
  /* The half that was freed last stays: it is the warm one. */
  front_trim(heap, bin, bin->capacity / 2);
  if (HAK_UNLIKELY(heap->freed_in_a_row >= SWEEP_FROM)) sweep(heap);
}
