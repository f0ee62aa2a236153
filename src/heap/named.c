/* named.c - see named.h. */
#include "heap/named.h"

#include <limits.h>
#include <string.h>

#include "heap/purger.h"
#include "heap/refill.h"
#include "heap/slabs.h"
#include "observe/report.h"
#include "os/text.h"

/* --- by number ------------------------------------------------------------------------------------------ */

/* A descriptor has 16 bits to say whose it is. */
enum { PAGE = 512, PAGES = 128, NUMBERS = PAGE * PAGES };
static _Atomic(_Atomic(struct hak_heap *) *) number_pages[PAGES];
static atomic_uint most;

static struct hak_heap *unused; /* under heap_list_lock */

unsigned named_most(void) { return atomic_load_explicit(&most, memory_order_acquire); }

/* acquire: pairs with `enter`, for who has only a number */
struct hak_heap *named_by_number(unsigned number) {
  if (number == 0 || number >= NUMBERS) return NULL;
  _Atomic(struct hak_heap *) *page =
      atomic_load_explicit(&number_pages[number / PAGE], memory_order_acquire);
  return page != NULL ? atomic_load_explicit(&page[number % PAGE], memory_order_acquire) : NULL;
}

bool named_exists(struct hak_heap *named) {
  lock_acquire(&heap_list_lock);
  bool exists = named->exists;
  lock_release(&heap_list_lock);
  return exists;
}

/* Where the heap of that number is entered; NULL: there are no more numbers, or there is no memory. */
static _Atomic(struct hak_heap *) *place_of(unsigned number) {
  if (number >= NUMBERS) return NULL;
  _Atomic(struct hak_heap *) *page =
      atomic_load_explicit(&number_pages[number / PAGE], memory_order_relaxed);
  if (page == NULL) {
    page = meta_allocate(PAGE * sizeof *page, sizeof *page);
    if (page == NULL) return NULL;
    atomic_store_explicit(&number_pages[number / PAGE], page, memory_order_release);
  }
  return &page[number % PAGE];
}

static void enter(struct hak_heap *named, unsigned number, _Atomic(struct hak_heap *) *place) {
  named->number = (uint16_t)number;
  atomic_store_explicit(place, named, memory_order_release);
  atomic_store_explicit(&most, number, memory_order_release);
}

struct hak_heap *named_of_span(const struct slab *descriptor) {
  return descriptor->listed == LIST_NAMED ? named_by_number(descriptor->capacity) : NULL;
}

/* --- birth ------------------------------------------------------------------------------------------------ */

static void make_ring(struct slab *ring) { ring->next = ring->prev = ring; }

static bool is_ring_empty(const struct slab *ring) { return ring->next == ring; }

/* A bin keeps so much; what it has beyond goes back to slabs. */
#define BIN_BYTES (16 * KIB)
enum { BIN_BLOCKS_LEAST = 2 };

static void set_capacities(struct hak_heap *named) {
  for (unsigned c = 0; c < CLASS_COUNT; c++) {
    uint32_t blocks = (uint32_t)(BIN_BYTES / class_size(c));
    if (blocks > REFILL_BLOCKS) blocks = REFILL_BLOCKS;
    if (blocks < BIN_BLOCKS_LEAST) blocks = BIN_BLOCKS_LEAST;
    named->bins[c] = (struct bin){.capacity = blocks, .room = (int32_t)blocks};
  }
}

/* Once in the list of all heaps it stays there: a heap that was destroyed is used for the next one. */
static struct hak_heap *new_heap(void) {
  unsigned number = named_most() + 1;
  _Atomic(struct hak_heap *) *place = place_of(number); /* first: a heap's memory never goes back */
  if (place == NULL) return NULL;
  struct hak_heap *named = meta_allocate(sizeof *named, _Alignof(struct hak_heap));
  if (named == NULL) return NULL;
  enter(named, number, place);
  lock_init(&named->arena.lock);
  make_ring(&named->full);
  make_ring(&named->blocks);
  set_capacities(named);
  atomic_store_explicit(&named->arena.state, ARENA_NAMED, memory_order_relaxed);
  purger_set_mark(&named->arena);
  arena_list(&named->arena);
  return named;
}

struct hak_heap *named_create(const char *name, size_t limit) {
  if (!heap_start()) return NULL;
  lock_acquire(&heap_list_lock);
  /* In the child of a fork that found another thread at work in it, a heap is of no use any more. */
  while (unused != NULL && unused->lost) unused = unused->next_unused;
  struct hak_heap *named = unused;
  if (named != NULL) unused = named->next_unused;
  else named = new_heap();
  if (named != NULL) named->exists = true;
  lock_release(&heap_list_lock);
  if (named == NULL) return NULL;
  size_t length = name != NULL ? text_length_within(name, NAMED_BYTES - 1) : 0;
  lock_acquire(&named->arena.lock);
  named->limit = limit;
  named->live_bytes = named->live_blocks = named->peak_bytes = named->span_bytes = 0;
  named->refused = 0;
  if (length > 0) memcpy(named->name, name, length);
  memset(named->name + length, 0, NAMED_BYTES - length);
  lock_release(&named->arena.lock);
  return named;
}

static bool others_walk(const struct hak_heap *named) {
  return HAK_UNLIKELY(named->walker != 0) && named->walker != lock_self();
}

/* Walks are rare, and may take as long as their visitor likes. */
static void wait_for_walk(void) {
  enum { WAIT_MS = 1 };
  static _Atomic uint32_t nobody_wakes;
  os_sleep_on(&nobody_wakes, 0, WAIT_MS);
}

void named_lock(struct hak_heap *named) {
  for (lock_acquire(&named->arena.lock); others_walk(named); lock_acquire(&named->arena.lock)) {
    lock_release(&named->arena.lock);
    wait_for_walk();
  }
}

/* Nothing is held while it waits: the visitor of the other walk may call the purger. */
void named_lock_beside_purger(struct hak_heap *named) {
  for (;;) {
    lock_acquire(&purger_batch_lock);
    lock_acquire(&named->arena.lock);
    if (!others_walk(named)) return;
    lock_release(&named->arena.lock);
    lock_release(&purger_batch_lock);
    wait_for_walk();
  }
}

/* Of what a visitor must not do: slabs would change lists that are being walked. */
static void refuse_in_walk(struct hak_heap *named) {
  if (HAK_UNLIKELY(named->walker != 0))
    report_corruption("hak_heap_walk: the visitor allocates from the heap or destroys it");
}

/* --- blocks ------------------------------------------------------------------------------------------------ */

static bool has_room_for(struct hak_heap *named, size_t bytes) {
  if (bytes <= named->limit && named->live_bytes <= named->limit - bytes) return true;
  named->refused++;
  return false;
}

static void count_more(struct hak_heap *named, size_t bytes) {
  named->live_bytes += bytes;
  if (named->live_bytes > named->peak_bytes) named->peak_bytes = named->live_bytes;
}

static void count_in(struct hak_heap *named, size_t bytes) {
  count_more(named, bytes);
  named->live_blocks++;
}

static void count_out(struct hak_heap *named, size_t bytes) {
  named->live_bytes -= bytes;
  named->live_blocks--;
}

static struct slab *slab_to_use(struct hak_heap *named, unsigned size_class) {
  struct arena *arena = &named->arena;
  struct arena_class *slabs = &arena->classes[size_class];
  if (slabs->first != NULL || refill_recommit(arena, size_class)) return slabs->first;
  enum span_pages pages = slabs_owned(arena) < HUGE_PAGES_FROM ? PAGES_SMALL : PAGES_HUGE;
  struct slab *slab = slab_new(size_class, &arena->inboxes[size_class], pages);
  if (slab == NULL) return NULL;
  slabs_own(arena, slab);
  slabs_enlist(arena, slab);
  return slab;
}

/* New blocks are made a few at a time, as a thread's heap does. */
static bool fill(struct hak_heap *named, unsigned size_class) {
  struct arena *arena = &named->arena;
  struct slab *slab = slab_to_use(named, size_class);
  if (slab == NULL) return false;
  void *list = NULL;
  unsigned count = slab_take_list(slab, UINT_MAX, &list);
  slabs_count_free(arena, slab, -(int64_t)count);
  unsigned wanted = (unsigned)(REFILL_BYTES / class_size(size_class));
  if (count == 0) count = slab_carve(slab, wanted > 0 ? wanted : 1, 0, &list);
  named->bins[size_class].head = list;
  named->bins[size_class].room -= (int32_t)count;
  if (slab_is_decommitted(slab) || !slab_has_room(slab)) slabs_unlist(arena, slab);
  if (slab_is_decommitted(slab)) slabs_enlist(arena, slab);
  else if (!slab_has_room(slab)) slabs_enter_ring(&named->full, slab, LIST_FULL);
  return count > 0;
}

void *named_take(struct hak_heap *named, unsigned size_class, bool *refused) {
  size_t bytes = class_size(size_class);
  void *block = NULL;
  named_lock(named);
  refuse_in_walk(named);
  *refused = named->lost || !has_room_for(named, bytes);
  struct bin *bin = &named->bins[size_class];
  bool fills = bin->head == NULL;
  if (!*refused && (!fills || fill(named, size_class))) block = bin_pop(bin);
  if (block != NULL) count_in(named, bytes);
  lock_release(&named->arena.lock);
  if (fills) superslab_settle();
  return block;
}

/* All but what was freed last. */
static void trim(struct hak_heap *named, unsigned size_class) {
  struct bin *bin = &named->bins[size_class];
  uint32_t keep = bin->capacity / 2;
  void *last = bin->head;
  for (uint32_t i = 1; i < keep; i++) last = link_follow_on(last);
  void *cold = link_follow(last);
  link_set(last, NULL);
  bin->room = (int32_t)(bin->capacity - keep);
  slabs_put_list(&named->arena, size_class, cold, true);
}

bool named_put(struct hak_heap *named, unsigned size_class, void *block) {
  struct arena *arena = &named->arena;
  named_lock(named);
  bool trims = false;
  if (HAK_LIKELY(!named->lost)) {
    count_out(named, class_size(size_class));
    if (named->walked != NULL && slab_head(map_slab(block)) == named->walked) {
      link_set(block, named->walked_free[size_class]);
      named->walked_free[size_class] = block;
    } else if (bin_push(&named->bins[size_class], block) && named->walker == 0) {
      trim(named, size_class);
      trims = true;
    }
  }
  lock_release(&arena->lock);
  if (trims) superslab_settle();
  return trims;
}

static void enlist(struct hak_heap *named, struct slab *descriptor, size_t usable) {
  named->span_bytes += usable;
  descriptor->capacity = named->number;
  slabs_enter_ring(&named->blocks, descriptor, LIST_NAMED);
}

/* False: it is in no list any more, or the heap is lost. */
static bool unlist(struct hak_heap *named, struct slab *descriptor, size_t usable) {
  if (descriptor->listed != LIST_NAMED) return false;
  if (named->lost) descriptor->listed = LIST_NONE;
  else slabs_leave_ring(descriptor);
  named->span_bytes -= usable;
  return !named->lost;
}

bool named_keep(struct hak_heap *named, struct slab *descriptor, size_t usable) {
  named_lock(named);
  bool keeps = !named->lost && has_room_for(named, usable);
  if (keeps) {
    count_in(named, usable);
    enlist(named, descriptor, usable);
  }
  lock_release(&named->arena.lock);
  return keeps;
}

bool named_may_grow(struct hak_heap *named, size_t bytes) {
  named_lock(named);
  bool may = !named->lost && has_room_for(named, bytes);
  lock_release(&named->arena.lock);
  return may;
}

bool named_begin_resize(struct hak_heap *named, struct slab *descriptor, size_t usable,
                        size_t more) {
  named_lock(named);
  bool may = more == 0 || (!named->lost && has_room_for(named, more));
  if (may) count_more(named, more);
  if (may && descriptor != NULL) (void)unlist(named, descriptor, usable);
  lock_release(&named->arena.lock);
  return may;
}

void named_end_resize(struct hak_heap *named, struct slab *descriptor, size_t counted,
                      size_t usable) {
  named_lock(named);
  named->live_bytes -= counted;
  count_more(named, usable);
  if (descriptor != NULL && !named->lost) enlist(named, descriptor, usable);
  lock_release(&named->arena.lock);
}

void named_forget(struct hak_heap *named, struct slab *descriptor, size_t usable) {
  named_lock(named);
  /* Of two threads that free it, one is here first; the other's free is refused. */
  if (unlist(named, descriptor, usable)) count_out(named, usable);
  lock_release(&named->arena.lock);
}

void named_figures_get(struct hak_heap *named, struct named_figures *figures) {
  named_lock(named);
  *figures = (struct named_figures){.live_blocks = named->live_blocks,
                                    .live_bytes = named->live_bytes,
                                    .peak_bytes = named->peak_bytes,
                                    .held_bytes = slabs_owned(&named->arena) + named->span_bytes,
                                    .limit = named->limit,
                                    .refused = named->refused};
  lock_release(&named->arena.lock);
}

/* --- the end -------------------------------------------------------------------------------------------------- */

/* One of the heap's slabs; NULL: it has none any more. */
static struct slab *any_slab(struct hak_heap *named) {
  const struct arena *arena = &named->arena;
  for (unsigned c = 0; c < CLASS_COUNT; c++) {
    if (arena->classes[c].first != NULL) return arena->classes[c].first;
    if (arena->classes[c].decommitted != NULL) return arena->classes[c].decommitted;
  }
  if (is_ring_empty(&named->full)) return NULL;
  struct slab *slab = named->full.next;
  slabs_leave_ring(slab);
  return slab;
}

/* A fork and the purger wait for both locks: some slabs at a time. False: there are no more. */
static bool drop_slabs(struct hak_heap *named) {
  struct slab *slab = NULL;
  named_lock_beside_purger(named);
  refuse_in_walk(named);
  set_capacities(named); /* what is in bins goes with its slabs */
  memset(named->walked_free, 0, sizeof named->walked_free);
  named->live_bytes = named->live_blocks = named->span_bytes = 0;
  for (int i = 0; i < SLABS_A_HOLD && (slab = any_slab(named)) != NULL; i++) {
    slabs_disown(&named->arena, slab);
    slab_drop(slab);
  }
  lock_release(&named->arena.lock);
  lock_release(&purger_batch_lock);
  superslab_settle();
  return slab != NULL;
}

/* One after the other, without the lock: a Huge block goes by system calls. */
static bool drop_span(struct hak_heap *named) {
  lock_acquire(&named->arena.lock);
  bool any = !is_ring_empty(&named->blocks);
  struct slab *span = named->blocks.next;
  if (any) slabs_leave_ring(span);
  lock_release(&named->arena.lock);
  if (!any) return false;
  span->free_list = NULL; /* the size that was asked for (front/full.c) */
  struct superslab *superslab = superslab_of(span);
  if (superslab->huge_units != 0) (void)huge_release(superslab, superslab->base);
  else (void)large_free(NULL, span);
  return true;
}

void named_destroy(struct hak_heap *named) {
  if (!named_exists(named)) report_corruption("hak_heap_destroy: the heap was destroyed before");
  if (named->lost) return; /* what it held stays where it is */
  while (drop_slabs(named)) continue;
  while (drop_span(named)) continue;
  lock_acquire(&heap_list_lock);
  named->exists = false;
  named->next_unused = unused;
  unused = named;
  lock_release(&heap_list_lock);
}

void named_end_walk_of_others(struct arena *arena) {
  struct hak_heap *named = (struct hak_heap *)(void *)arena;
  if (named->walker == lock_self()) return;
  named->walker = 0;
  named->walked = NULL;
}

void named_lose(struct arena *arena) {
  struct hak_heap *named = (struct hak_heap *)(void *)arena;
  named->lost = true;
  named->walker = 0; /* who walked is not there */
  named->walked = NULL;
}
