/* remote.c - blocks freed by another thread than the one that owns their slab.
 *
 * The freeing thread gathers blocks for one bin of one heap in a slot, and sends the whole batch with
 * one compare-and-swap to that heap's inbox of the class. The inbox is a stack of batches whose only
 * operations are push (any thread) and take-all (whoever holds the heap's lock). With no single pop
 * there is no ABA problem, since a push whose head went away and came back still links to a head
 * that is there. tests/models/inbox.pml checks it exhaustively. What was taken is the heap's drained list, from which
 * batches are used one by one without being walked.
 *
 * A batch of 64 to 128 small blocks costs a block 1.8-2.0 ns, of 8 blocks 3.5 (docs/decisions/0003).
 */
#include "heap/remote.h"

#include "heap/bins.h"
#include "heap/homes.h"
#include "heap/named.h"
#include "heap/purger.h"
#include "heap/slots.h"
#include "observe/report.h"

#define BATCH_BYTES (16 * KIB)
/* Of a thread that shares its home: one that sleeps keeps what it has not sent (docs/decisions/0002). */
#define BATCH_BYTES_SHARED (8 * KIB)

static unsigned count_of(const struct batch *batch) {
  return (unsigned)(batch->next_and_count >> BATCH_COUNT_SHIFT);
}

/* Relaxed: a hint as well. The bytes after it. */
static int64_t count_inbox(struct arena *arena, unsigned size_class, int64_t blocks) {
  int64_t more = blocks * class_size(size_class);
  return atomic_fetch_add_explicit(&arena->inbox_bytes, more, memory_order_relaxed) + more;
}

/* True: so much waits there that the purger is to be called, without a lock. */
static bool push(struct arena *to, unsigned size_class, void *blocks, unsigned count) {
  struct batch *batch = blocks, *old;
  old = atomic_load_explicit(&to->inboxes[size_class].first, memory_order_relaxed);
  do batch->next_and_count = (uintptr_t)old | (uint64_t)count << BATCH_COUNT_SHIFT;
  /* release: the links and whatever the program wrote reach the taker. Nothing is read through
   * the old head, so no acquire. */
  while (!atomic_compare_exchange_weak_explicit(&to->inboxes[size_class].first, &old, batch,
                                                memory_order_release, memory_order_relaxed));
  int64_t waits = count_inbox(to, size_class, count);
  return purger_inbox_is_due(to, waits);
}

static bool send(struct outgoing *slot) {
  if (slot->head == NULL) return false;
  void *head = slot->head;
  unsigned count = slot->count;
  slot->head = NULL;
  slot->count = 0;
  slot->waited = false;
  return push(arena_of_inbox(slot->owner, slot->size_class), slot->size_class, head, count);
}

static void send_of(struct thread_cache *cache, struct outgoing *slot) {
  if (HAK_UNLIKELY(send(slot))) cache->deferred |= DEFERRED_PURGE;
}

/* False: a handler of signals has interrupted its thread there, and uses no slot. */
static bool enter(struct thread_cache *cache) {
  if (HAK_UNLIKELY(slots_are_in_use(cache))) return false;
  while (HAK_UNLIKELY(!slots_enter(cache))) slots_take_back(cache);
  return true;
}

/* Blocks that are freed now and then would wait long for a full batch, while their owners take new memory. So in a thread that shares its home each full
 * batch has one of the first 64 slots looked at, in turn: what was there at the look before goes, too (docs/decisions/0034). */
static void send_what_waits(struct thread_cache *cache) {
  struct outgoing *slot = &cache->outgoing[cache->next_waiting++ % OUTGOING_SLOTS];
  if (slot->waited) send_of(cache, slot);
  else if (slot->head != NULL) slot->waited = true;
}

static void send_full(struct thread_cache *cache, struct outgoing *slot) {
  send_of(cache, slot);
  if (homes_is_shared(cache->arena)) send_what_waits(cache);
}

void remote_send_full(struct thread_cache *cache, struct outgoing *slot) {
  if (!enter(cache)) return;
  send_full(cache, slot);
  slots_leave(cache);
}

static unsigned batch_limit(unsigned size_class, size_t bytes) {
  size_t limit = bytes / class_size(size_class);
  return limit > BATCH_BLOCKS ? BATCH_BLOCKS : limit == 0 ? 1 : (unsigned)limit;
}

/* --- slots -------------------------------------------------------------------------------------------------- */

static void give_slot_to(struct outgoing *slot, struct inbox *owner, void *block, size_t bytes) {
  unsigned size_class = map_slab(block)->size_class;
  slot->size_class = (uint8_t)size_class;
  slot->limit = (uint16_t)batch_limit(size_class, bytes);
  slot->owner = owner;
}

/* A named heap gets each block at once: gathered ones would still be linked when it is destroyed. */
static bool freed_to_named(struct inbox *owner, void *block, bool *check_is_due) {
  unsigned size_class = map_slab(block)->size_class;
  struct hak_heap *named = named_of_inbox(owner, size_class);
  if (named != NULL) *check_is_due = named_put(named, size_class, block);
  return named != NULL;
}

/* Two owners may want one slot, and each would cut the other's batches short. So each has two places; free() looks at the first one
 * only. With four, blocks come back so late that they are cold (docs/decisions/0040). */
static struct outgoing *other_place(struct thread_cache *cache, const struct outgoing *first) {
  return &cache->outgoing[(size_t)(first - cache->outgoing) ^ OUTGOING_SLOTS / 2];
}

/* NULL: no slot is this owner's. */
static struct outgoing *find_slot(struct thread_cache *cache, const struct inbox *owner) {
  struct outgoing *first = remote_slot(cache, owner), *other = other_place(cache, first);
  return first->owner == owner ? first : other->owner == owner ? other : NULL;
}

/* The first place if it is empty, else the other one if that is; else the fuller one, whose batch is sent. */
static struct outgoing *new_slot(struct thread_cache *cache, struct inbox *owner, void *block) {
  struct outgoing *slot = remote_slot(cache, owner), *other = other_place(cache, slot);
  if (slot->count > 0 && (other->count == 0 || other->count > slot->count)) slot = other;
  send_of(cache, slot);
  give_slot_to(slot, owner, block,
               homes_is_shared(cache->arena) ? BATCH_BYTES_SHARED : BATCH_BYTES);
  return slot;
}

void remote_free(struct thread_cache *cache, struct inbox *owner, void *block) {
  struct outgoing *slot = find_slot(cache, owner);
  bool check_is_due = false;
  if (slot == NULL && freed_to_named(owner, block, &check_is_due)) {
    if (check_is_due) cache->deferred |= DEFERRED_CHECK;
    return;
  }
  if (HAK_UNLIKELY(!enter(cache))) {
    remote_free_now(owner, block);
    return;
  }
  if (slot == NULL) slot = new_slot(cache, owner, block);
  if (remote_gather(slot, block) >= slot->limit) send_full(cache, slot);
  slots_leave(cache);
}

void remote_send_list(struct inbox *owner, void *first, unsigned count) {
  unsigned size_class = map_slab(first)->size_class;
  unsigned limit = batch_limit(size_class, BATCH_BYTES);
  while (count > 0) {
    unsigned blocks = count < limit ? count : limit;
    void *last = first;
    for (unsigned i = 1; i < blocks; i++) last = link_follow_on(last);
    /* Before the push: it belongs to others from then on. A block alone has no link yet. */
    void *next = count > blocks ? link_follow_on(last) : NULL;
    link_set(last, NULL);
    (void)push(arena_of_inbox(owner, size_class), size_class, first, blocks);
    first = next;
    count -= blocks;
  }
}

bool remote_send_home(struct inbox *owner, unsigned size_class, void *list) {
  unsigned limit = batch_limit(size_class, BATCH_BYTES);
  bool due = false;
  while (list != NULL) {
    void *first = list, *last = first;
    unsigned blocks = 1;
    for (list = link_follow(last); list != NULL && blocks < limit; blocks++)
      list = link_follow(last = list);
    link_set(last, NULL);
    due |= push(arena_of_inbox(owner, size_class), size_class, first, blocks);
  }
  return due;
}

void remote_send_misrouted(struct misrouted *misrouted) {
  for (unsigned i = 0; i < MISROUTED_SLOTS; i++) (void)send(&misrouted->slots[i]);
}

/* Heaps often lie at a fixed distance. Whatever that is, their bins have to be spread as by chance: one multiplication
 * gathers some distances in a few places. So the upper half is folded into the lower one between two (as in
 * SplitMix64, Steele, Lea and Flood 2014). */
static uint64_t mixed(const struct inbox *owner) {
  const uint64_t odd = UINT64_C(0x9e3779b97f4a7c15); /* 2^64 / golden ratio */
  uint64_t key = (uintptr_t)owner / sizeof(struct inbox) * odd;
  return ((key ^ key >> 32) * odd) >> 32;
}

void remote_gather_misrouted(struct misrouted *misrouted, struct inbox *owner, void *first,
                             unsigned count) {
  struct outgoing *slot = &misrouted->slots[mixed(owner) % MISROUTED_SLOTS];
  if (slot->owner != owner) {
    (void)send(slot);
    give_slot_to(slot, owner, first, BATCH_BYTES);
  }
  for (void *next; count > 0; first = next, count--) {
    next = count > 1 ? link_follow_on(first) : NULL;
    if (remote_gather(slot, first) >= slot->limit) (void)send(slot);
  }
}

void remote_free_now(struct inbox *owner, void *block) {
  bool check_is_due;
  if (!freed_to_named(owner, block, &check_is_due)) remote_send_list(owner, block, 1);
}

/* Of so many slots: with `idle_scans` above 0 what was there when they were last looked at. Bytes of the rest. */
static size_t send_older_of(struct outgoing *slots, unsigned count, unsigned idle_scans) {
  size_t unexpired = 0;
  for (struct outgoing *slot = slots; slot < slots + count; slot++) {
    if (slot->head == NULL) continue;
    if (idle_scans == 0 || slot->waited) {
      (void)send(slot);
    } else {
      slot->waited = true;
      unexpired += (size_t)slot->count * class_size(slot->size_class);
    }
  }
  return unexpired;
}

size_t remote_send_older(struct thread_cache *cache, unsigned idle_scans) {
  return send_older_of(cache->outgoing, OUTGOING_SLOTS, idle_scans);
}

void remote_flush(struct thread_cache *cache) {
  if (!enter(cache)) return;
  (void)remote_send_older(cache, 0);
  slots_leave(cache);
}

/* What was sent since this was last asked. */
static struct batch *take_inbox(struct arena *arena, unsigned size_class) {
  /* A plain look first: an exchange would pull the line to us each time for nothing. */
  if (atomic_load_explicit(&arena->inboxes[size_class].first, memory_order_relaxed) == NULL)
    return NULL;
  /* acquire: pairs with the pushes' release */
  return atomic_exchange_explicit(&arena->inboxes[size_class].first, NULL, memory_order_acquire);
}

/* The heap's drained list of the class, with what came meanwhile when it is empty. */
static struct batch *drained_of(struct arena *arena, unsigned size_class) {
  if (arena->classes[size_class].drained == NULL)
    arena->classes[size_class].drained = take_inbox(arena, size_class);
  return arena->classes[size_class].drained;
}

/* While a batch waits nothing covers the link of its first block, and the second word was made anew from whatever the first one is. It has
 * to lead to a free block of the class, if the batch has another. */
static void check_restored(const struct batch *batch, unsigned count, unsigned size_class) {
  const void *next = link_follow(batch);
  if (HAK_UNLIKELY((next == NULL) != (count == 1) ||
                   (next != NULL && !link_is_free(next, size_class))))
    link_report(batch);
}

unsigned remote_take_batch(struct arena *arena, unsigned size_class, void **list) {
  struct batch *batch = drained_of(arena, size_class);
  if (batch == NULL) return 0;
  unsigned count = count_of(batch);
  if (HAK_UNLIKELY(count - 1 >= BATCH_BLOCKS)) link_report(batch);
  arena->classes[size_class].drained = batch_follow(batch, size_class);
  link_restore(batch);
  check_restored(batch, count, size_class);
  (void)count_inbox(arena, size_class, -(int64_t)count);
  *list = batch;
  return count;
}

bool remote_has_batches(struct arena *arena, unsigned size_class, unsigned batches) {
  const struct batch *batch = drained_of(arena, size_class);
  for (; batch != NULL && batches > 0; batches--) batch = batch_follow(batch, size_class);
  return batches == 0;
}

bool remote_steal(struct arena *arena, struct arena *from, unsigned size_class) {
  struct batch *first = drained_of(from, size_class), *last = first, *next;
  if (first == NULL) return false;
  int64_t blocks = count_of(first);
  for (unsigned i = 1; i < STEAL_BATCHES && (next = batch_follow(last, size_class)) != NULL; i++) {
    last = next;
    blocks += count_of(last);
  }
  from->classes[size_class].drained = batch_follow(last, size_class);
  last->next_and_count = (uint64_t)count_of(last) << BATCH_COUNT_SHIFT;
  HAK_CHECK(arena->classes[size_class].drained == NULL);
  arena->classes[size_class].drained = first;
  (void)count_inbox(from, size_class, -blocks);
  (void)count_inbox(arena, size_class, blocks);
  return true;
}

/* --- around fork ------------------------------------------------------------------------------------------ */

/* Where a drained list is left it comes behind what was sent since. */
void remote_settle(struct arena *arena) {
  for (unsigned c = 0; c < CLASS_COUNT; c++) {
    struct batch *first = take_inbox(arena, c), *last = first;
    if (first == NULL) continue;
    for (struct batch *next; (next = batch_follow(last, c)) != NULL;) last = next;
    last->next_and_count = (uintptr_t)arena->classes[c].drained | (uint64_t)count_of(last)
                                                                      << BATCH_COUNT_SHIFT;
    arena->classes[c].drained = first;
  }
}

void remote_forget_drained(struct arena *arena) {
  for (unsigned c = 0; c < CLASS_COUNT; c++)
    if (arena->classes[c].drained != NULL) arena->classes[c].drained = NULL;
}

/* However long the drained lists are: no other thread is there to wait. `inbox_bytes` does not say whether anything is there: who has sent a
 * batch counts it afterwards. Nothing is written where nothing changes, for each page that is costs a copy. */
void remote_forget_inbox(struct arena *arena) {
  int64_t bytes = 0;
  for (unsigned c = 0; c < CLASS_COUNT; c++) {
    if (atomic_load_explicit(&arena->inboxes[c].first, memory_order_relaxed) != NULL)
      atomic_store_explicit(&arena->inboxes[c].first, NULL, memory_order_relaxed);
    int64_t size = class_size(c);
    for (struct batch *batch = arena->classes[c].drained; batch != NULL;
         batch = batch_follow(batch, c))
      bytes += count_of(batch) * size;
  }
  if (atomic_load_explicit(&arena->inbox_bytes, memory_order_relaxed) != bytes)
    atomic_store_explicit(&arena->inbox_bytes, bytes, memory_order_relaxed);
}
