/* absent.c - see absent.h.
 *
 * Why an unchanged sum, and a proof as well. Pages that a device may write to are copied at once at a fork, and a thread that writes
 * to them does not wait for the rest. In the child such a page may be older than the lists that lead through it. Heaps lie in metadata, which
 * no device has. So the heap of the child tells whether its thread was at work while pages were copied; if it was, nothing that leads
 * through the program's pages is followed. A thread may have brought its bins back to exactly what they were: the same first block
 * and the same count of each. Then a page that was copied at once may still hold a link of before, to a block that is live by now. The proof
 * follows it only as far as each block is one of the class and the list ends where the count says.
 *
 * A thread may also sleep between any two stores, in a signal handler or because it was preempted. Each store of bins.h and
 * remote.h leaves a list whose blocks are free, at most one fewer or one more than the count says (unit.fork_at_every_store); what the
 * thread has in its hands is in no list.
 */
#include "heap/absent.h"

#include <string.h>

#include "heap/bins.h"
#include "heap/named.h"
#include "heap/quarantine.h"
#include "heap/remote.h"
#include "heap/samples.h"
#include "heap/slabs.h"

_Atomic uint64_t absent_lost; /* relaxed: a figure */

uint64_t absent_lost_bytes(void) {
  return atomic_load_explicit(&absent_lost, memory_order_relaxed);
}

static void lose(size_t bytes) {
  atomic_fetch_add_explicit(&absent_lost, bytes, memory_order_relaxed);
}

/* --- what its thread uses without a lock --------------------------------------------------------------------- */

typedef uint64_t word __attribute__((may_alias));

/* Read in passing: of a thread that is at work any answer will do. */
__attribute__((no_sanitize("thread"))) static uint64_t sum_words(const void *start, size_t bytes,
                                                                 uint64_t sum) {
  const volatile word *words = start;
  for (size_t i = 0; i < bytes / sizeof(word); i++)
    sum = (sum ^ words[i]) * UINT64_C(0x9e3779b97f4a7c15);
  return sum;
}

static uint64_t sum_of(const struct thread_cache *cache) {
  uint64_t sum = sum_words(cache->bins, sizeof cache->bins, 1);
  return sum_words(cache->outgoing, sizeof cache->outgoing, sum);
}

static bool has_thread(const struct arena *arena) {
  return atomic_load_explicit(&arena->state, memory_order_relaxed) == ARENA_ACTIVE;
}

/* The lock is entered, so that nobody takes it away meanwhile. Who takes it away afterwards, to fork as well, makes another note; but then
 * this fork's child does not find the lock whole. */
void absent_note(struct arena *arena) {
  if (lock_holder(&arena->lock) != LOCK_MY_FORKS || !lock_try(&arena->lock)) return;
  if (atomic_load_explicit(&arena->inbox_bytes, memory_order_relaxed) > 0) remote_settle(arena);
  if (has_thread(arena)) arena->sum_at_fork = sum_of(cache_beside(arena));
  lock_release(&arena->lock);
}

static size_t held_bytes(const struct thread_cache *cache) {
  size_t bytes = bins_bytes(cache->bins);
  for (unsigned i = 0; i < OUTGOING_SLOTS; i++)
    if (cache->outgoing[i].head != NULL)
      bytes += (size_t)cache->outgoing[i].count * class_size(cache->outgoing[i].size_class);
  return bytes;
}

static void forget(struct thread_cache *cache) {
  lose(held_bytes(cache));
  memset(cache->bins, 0, sizeof cache->bins);
  memset(cache->outgoing, 0, sizeof cache->outgoing);
}

/* But for the pages of the quarantine, the rest is as in a new cache: it was the thread's. */
static void begin_anew(struct thread_cache *cache) {
  struct quarantine *quarantine = cache->quarantine;
  struct counters *counters = cache->counters;
  size_t from = offsetof(struct thread_cache, use);
  memset((char *)cache + from, 0, sizeof *cache - from);
  cache->quarantine = quarantine;
  cache->counters = counters;
}

bool absent_take_over(struct arena *arena) {
  struct thread_cache *cache = cache_beside(arena);
  if (!has_thread(arena)) return false;
  if (arena->sum_at_fork != sum_of(cache)) forget(cache);
  begin_anew(cache);
  atomic_store_explicit(&arena->in_doubt, true, memory_order_relaxed);
  atomic_store_explicit(&arena->state, ARENA_PARKED, memory_order_relaxed);
  atomic_store_explicit(&arena->in_transition, TRANSITION_GONE, memory_order_relaxed);
  return true;
}

void absent_lose(struct arena *arena) {
  lose(arena->free_bytes);
  if (named_is(arena)) lose(bins_bytes(((struct hak_heap *)(void *)arena)->bins));
  else if (arena != &heap_samples) lose(held_bytes(cache_beside(arena)));
}

/* --- the proof ------------------------------------------------------------------------------------------------ */

/* Is there a block of the class that was made, and free as far as is known? */
static bool is_block(const void *block, unsigned size_class) {
  if ((uintptr_t)block % BLOCK_ALIGNMENT != 0) return false;
  struct slab *slice = map_slab(block);
  if (slice == NULL || atomic_load_explicit(&slice->kind, memory_order_relaxed) != KIND_SLAB ||
      slice->size_class != size_class)
    return false;
  size_t at = (uintptr_t)block % SLICE_BYTES + ((size_t)slice->offset << SLICE_SHIFT);
  uint32_t size = slab_block_size(slice);
  return at % size == 0 && at / size < slab_carved(slab_head(slice)) &&
         link_is_free(block, size_class);
}

/* A list of `held` blocks, or one fewer or more, that ends; how many. 0: it is none, and its blocks are lost. */
static unsigned prove_list(const void *list, unsigned size_class, unsigned held) {
  unsigned count = 0;
  for (void *next; list != NULL; list = next, count++)
    if (count > held || !is_block(list, size_class) || !link_try(list, &next)) break;
  if (list == NULL && count + 1 >= held) return count;
  lose((size_t)(count > held ? count : held) * class_size(size_class));
  return 0;
}

static void prove_bin(struct thread_cache *cache, unsigned size_class) {
  struct bin *bin = &cache->bins[size_class];
  int64_t held = (int64_t)bin->capacity - bin->room;
  unsigned count = 0;
  if (bin->head != NULL) count = prove_list(bin->head, size_class, held > 0 ? (unsigned)held : 0);
  if (count == 0) bin->head = NULL;
  bin->room = (int32_t)bin->capacity - (int32_t)count;
}

/* Its blocks go into their slabs, or to their owners: whose the slot was may not be known. */
static void prove_slot(struct arena *arena, struct outgoing *slot) {
  void *list = slot->head;
  unsigned size_class = slot->size_class, held = slot->count;
  memset(slot, 0, sizeof *slot);
  if (list == NULL || size_class >= CLASS_COUNT) return;
  if (prove_list(list, size_class, held) > 0) slabs_put_mixed(arena, size_class, list, true);
}

void absent_prove_now(struct arena *arena) {
  struct thread_cache *cache = cache_beside(arena);
  atomic_store_explicit(&arena->in_doubt, false, memory_order_relaxed);
  for (unsigned c = 0; c < CLASS_COUNT; c++) prove_bin(cache, c);
  bins_count(cache);
  for (unsigned i = 0; i < OUTGOING_SLOTS; i++) prove_slot(arena, &cache->outgoing[i]);
  span_cache_settle(&cache->spans);
  lose(quarantine_settle(cache));
}
