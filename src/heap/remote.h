/* remote.h - blocks that another thread than their owner's frees. */
#ifndef HAK_REMOTE_H
#define HAK_REMOTE_H

#include "heap/heap.h"

/* The first block of a batch holds, beside the link to the second one, a word with the address of the next
 * batch (below 2^48) and, above it, how many blocks the batch has. The smallest block has room for both. */
struct batch {
  void *rest;
  uint64_t next_and_count;
};
_Static_assert(sizeof(struct batch) <= BLOCK_ALIGNMENT, "has to fit into every block");
#define BATCH_COUNT_SHIFT 48
enum { BATCH_BLOCKS = 128 }; /* at most */

/** The batch behind it in an inbox or a drained list. */
HAK_INLINE struct batch *batch_next(const struct batch *batch) {
  return (struct batch *)(uintptr_t)(batch->next_and_count &
                                     ((UINT64_C(1) << BATCH_COUNT_SHIFT) - 1));
}

/** The same where blocks of this class wait. The hardened variant ends the program when it is no free block of the class: the program
 * has written to a freed one. */
HAK_INLINE struct batch *batch_follow(const struct batch *batch, unsigned size_class) {
  struct batch *next = batch_next(batch);
  if (HAK_HARDENED &&
      HAK_UNLIKELY(next != NULL &&
                   (!map_has_entry(next) || map_inbox(next) == NULL ||
                    (uintptr_t)next % BLOCK_ALIGNMENT != 0 || !link_is_free(next, size_class))))
    link_report(batch);
  return next;
}

/** Where blocks for a bin of another heap are gathered: for this one if slot->owner says so. */
HAK_INLINE struct outgoing *remote_slot(struct thread_cache *cache, const struct inbox *owner) {
  /* By multiplication, of which bits 20 to 25 count. The factor was looked for: heaps that lie one behind the other, four or eight, and the first one
   * anywhere, with three to eight classes, have the fewest slots that more than two want. */
  _Static_assert(sizeof(struct inbox) == 16 && sizeof(struct outgoing) == 32, "the shifts below");
  uint64_t product = ((uintptr_t)owner >> 4) * UINT64_C(0x39640575);
  uintptr_t place = (uintptr_t)(product >> 15) & (OUTGOING_SLOTS - 1) * sizeof(struct outgoing);
  return (struct outgoing *)(void *)((char *)cache->outgoing + place);
}

/** Puts a block into the slot of its owner; how many are there now: with slot->limit it is full. Between slots_enter and slots_leave
 * (slots.h). */
HAK_INLINE unsigned remote_gather(struct outgoing *slot, void *block) {
  link_set(block, slot->head);
  slot->head = block;
  return ++slot->count;
}

/** Sends what a slot of the heap has gathered, which is full; another, in which blocks have waited for long, may go with it. The release
 * purger is wanted when much waits there. The heap's thread only, which calls release_answer after it. */
void remote_send_full(struct thread_cache *cache, struct outgoing *slot);

/** Frees a block whose slab belongs to the heap of `owner`; release_answer after it. */
void remote_free(struct thread_cache *cache, struct inbox *owner, void *block);

/** Sends `count` linked blocks of one slice, whose slab belongs to the heap of `owner`, at once. */
void remote_send_list(struct inbox *owner, void *first, unsigned count);

/** Sends a list of blocks of the class, which ends with NULL, in batches to the heap of `owner`, whoever owns their slabs. True: the purger
 * is wanted. */
bool remote_send_home(struct inbox *owner, unsigned size_class, void *list);

/** Where others' blocks of a class are gathered, so that they do not go home one by one. All zero at first. */
enum { MISROUTED_SLOTS = 8 };
struct misrouted {
  struct outgoing slots[MISROUTED_SLOTS];
};
/** As remote_send_list, with all that is there. */
void remote_send_misrouted(struct misrouted *misrouted);
/** Gathers `count` linked blocks of one slice, whose slab belongs to the heap of `owner`. */
void remote_gather_misrouted(struct misrouted *misrouted, struct inbox *owner, void *first,
                             unsigned count);

/** remote_send_list of one block, for callers without a heap. */
void remote_free_now(struct inbox *owner, void *block);

/** Sends everything gathered. The heap's thread only. */
void remote_flush(struct thread_cache *cache);

/** Sends what is in the slots, with `idle_scans` above 0 only what was there when it was last asked. Whoever may touch the slots (slots.h). Returns
 * the bytes that stay. */
size_t remote_send_older(struct thread_cache *cache, unsigned idle_scans);

/** Before a fork: takes what others sent to the calling thread's cache, whose lock it holds; what they send after this
 * is lost to the child. */
void remote_settle(struct arena *arena);

/** In the child of a fork: forgets the inbox. What was sent while memory was copied
 * need not be whole. */
void remote_forget_inbox(struct arena *arena);

/** The same of drained lists and inbox, where the lock was not held. */
void remote_forget_drained(struct arena *arena);

/** Takes one batch of those that others sent; returns how many blocks, 0: there is none. The caller holds
 * cache->lock. */
unsigned remote_take_batch(struct arena *arena, unsigned size_class, void **list);

/** Do others' frees of the class fill so many batches? The caller holds cache->lock. */
bool remote_has_batches(struct arena *arena, unsigned size_class, unsigned batches);

/** Moves up to STEAL_BATCHES batches from one arena's drained list to another's, which is empty; false: there are none. The caller holds
 * the locks of both. */
bool remote_steal(struct arena *arena, struct arena *from, unsigned size_class);
enum { STEAL_BATCHES = 64 };

#endif
