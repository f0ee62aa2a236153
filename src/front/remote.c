/* remote.c - blocks freed by another thread than the one that owns their slab.
 *
 * The freeing thread gathers blocks for one bin of one heap in a slot, and sends the whole chain with
 * one compare-and-swap to that heap's inbox of the class. The inbox is a stack whose only
 * operations are push (any thread) and take-all (whoever holds the heap's lock): with no single pop
 * there is no ABA problem, since a push whose head went away and came back still links to a head
 * that is there. tests/models/inbox.pml checks it exhaustively.
 *
 * A batch of 64 to 128 small blocks costs a block 1.8-2.0 ns, of 8 blocks 3.5 (docs/decisions/0003).
 */
#include "front/heap.h"
#include "observe/report.h"

enum { BATCH_BLOCKS = 128 };
#define BATCH_BYTES (16 * KIB)

/* The inbox word holds a block address below 2^48 and, above it, how many blocks the stack has: the
 * owner then need not walk the chain. Saturates; at the top value the chain is counted. */
#define COUNT_SHIFT 48
#define COUNT_MAX UINT64_C(0xffff)
#define BLOCK_OF(word) ((void *)((word) & ((UINT64_C(1) << COUNT_SHIFT) - 1)))
#define COUNT_OF(word) ((uint64_t)(word) >> COUNT_SHIFT)

static void push(struct heap *to, unsigned size_class, void *head, void *tail, unsigned count) {
  uintptr_t old = atomic_load_explicit(&to->inbox[size_class], memory_order_relaxed), new;
  do {
    *(void **)tail = BLOCK_OF(old);
    uint64_t total = COUNT_OF(old) + count;
    if (total > COUNT_MAX) total = COUNT_MAX;
    new = (uintptr_t)head | (uintptr_t)(total << COUNT_SHIFT);
    /* release: the links and whatever the program wrote reach the taker. Nothing is read through
     * the old head, so no acquire. */
  } while (!atomic_compare_exchange_weak_explicit(&to->inbox[size_class], &old, new,
                                                  memory_order_release, memory_order_relaxed));
  atomic_fetch_add_explicit(&to->inbox_bytes, (int64_t)count * class_size(size_class),
                            memory_order_relaxed);
}

static void send(struct outgoing *slot) {
  if (slot->head == NULL) return;
  void *head = slot->head, *tail = slot->tail;
  unsigned count = slot->count;
  /* Emptied before it is sent, and in this order: a child forked in between loses the batch rather
   * than sending it twice. */
  slot->head = NULL;
  slot->count = 0;
  atomic_signal_fence(memory_order_release);
  push(heap_of_bin(slot->owner, slot->size_class), slot->size_class, head, tail, count);
}

static unsigned batch_limit(unsigned size_class) {
  size_t limit = BATCH_BYTES / class_size(size_class);
  return limit > BATCH_BLOCKS ? BATCH_BLOCKS : limit == 0 ? 1 : (unsigned)limit;
}

static struct outgoing *slot_for(struct heap *heap, const struct bin *owner) {
  /* Bins are 16 bytes apart and heaps some KiB: both parts of the address have to count. */
  uintptr_t key = (uintptr_t)owner / sizeof(struct bin);
  return &heap->outgoing[(key ^ key >> 7) % OUTGOING_SLOTS];
}

void remote_free(struct heap *heap, struct bin *owner, void *block) {
  struct outgoing *slot = slot_for(heap, owner);
  if (HAK_UNLIKELY(slot->owner != owner)) {
    if (slot->owner != NULL) send(slot);
    slot->owner = owner;
    slot->size_class = map_slab(block)->size_class;
    slot->limit = (uint16_t)batch_limit(slot->size_class);
  }
  *(void **)block = slot->head;
  if (slot->head == NULL) slot->tail = block;
  atomic_signal_fence(memory_order_release); /* for a child of fork: see bin_push */
  slot->head = block;
  if (++slot->count >= slot->limit) send(slot);
}

void remote_free_now(struct bin *owner, void *block) {
  unsigned size_class = map_slab(block)->size_class;
  push(heap_of_bin(owner, size_class), size_class, block, block, 1);
}

void remote_flush(struct heap *heap) {
  for (unsigned i = 0; i < OUTGOING_SLOTS; i++)
    if (heap->outgoing[i].owner != NULL) send(&heap->outgoing[i]);
}

static uint64_t chain_length(void *block) {
  uint64_t length = 0;
  for (; block != NULL; block = *(void **)block) length++;
  return length;
}

unsigned remote_take(struct heap *heap, unsigned size_class, void **list) {
  /* A plain look first: an exchange would pull the line to us each time for nothing. */
  if (atomic_load_explicit(&heap->inbox[size_class], memory_order_relaxed) == 0) return 0;
  /* acquire: pairs with the pushes' release */
  uintptr_t word = atomic_exchange_explicit(&heap->inbox[size_class], 0, memory_order_acquire);
  uint64_t count = COUNT_OF(word);
  *list = BLOCK_OF(word);
  if (count == COUNT_MAX) count = chain_length(*list);
  atomic_fetch_sub_explicit(&heap->inbox_bytes, (int64_t)(count * class_size(size_class)),
                            memory_order_relaxed);
  return (unsigned)count;
}
