/* guarded.h - a few samples lie on pages of their own, so that the processor finds what the program does wrong with them.
 *
 * HAKMEM_GUARD_SAMPLE=N puts one in N samples of at most a page there, alternately at the page's start and at its end, with a page
 * that cannot be touched on either side. What lies beside the block on its page is filled with a pattern, which is looked at when
 * the block is freed. A freed block's page cannot be touched; of all free places the one that was freed first is used next.
 * After Electric Fence, and GWP-ASan (LLVM's GwpAsan document), which made it a matter of chance.
 *
 * What is known of the places is under heap_samples.lock, which these functions take themselves. System calls are made without it.
 */
#ifndef HAK_GUARDED_H
#define HAK_GUARDED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "os/os.h"

/* The places. Nothing: no block was guarded so far. Written once. */
struct guarded_pages {
  _Atomic uintptr_t base, bytes;
};
extern struct guarded_pages guarded_pages HAK_HIDDEN;

enum { GUARDED_SLOTS_MOST = 64, GUARDED_DEPTH = 24 };
enum slot_state { SLOT_NEW, SLOT_LIVE, SLOT_FREED };

/* What happened to a block, and who did it. */
struct guarded_event {
  int thread;
  unsigned depth;
  uintptr_t addresses[GUARDED_DEPTH];
};

/* A place, under heap_samples.lock. Tools read it as well (observe/directory.h). */
struct guarded_slot {
  uint8_t state; /* enum slot_state */
  bool busy;     /* its page is being opened or closed, without the lock */
  bool told;     /* something was wrong with it, and was reported: it is not used again */
  uint32_t size;
  uintptr_t block;
  uint64_t order; /* the smallest is used next */
  struct guarded_event allocated, freed;
};
extern struct guarded_slot guarded_slots[GUARDED_SLOTS_MOST] HAK_HIDDEN;

/** Does it lie in one of the places, or beside it? */
HAK_INLINE bool guarded_has(const void *pointer) {
  /* relaxed: who has such a block got it from who allocated it, after the pages were there */
  return (uintptr_t)pointer - atomic_load_explicit(&guarded_pages.base, memory_order_relaxed) <
         atomic_load_explicit(&guarded_pages.bytes, memory_order_relaxed);
}

/* Where something happened to a block: return addresses, innermost first. */
struct guarded_call {
  const uintptr_t *addresses;
  unsigned depth;
};

/** Is a sample of this size to be a guarded one? Draws from `random`. */
bool guarded_is_due(size_t size, size_t alignment, uint64_t *random);
/** A place for it; NULL: none is free, or there is no memory. Its bytes are zero. */
void *guarded_take(size_t size, size_t alignment, struct guarded_call by);
/** Bytes of the blocks that live there. */
uint64_t guarded_live_bytes(void);
/** Ends a live block. What was written beside it is reported, and ends the program. */
void guarded_put(void *block, struct guarded_call by);

/** What is wrong with a pointer that guarded_has: NULL, or one of REPORT_*; then also the block's size, as asked for. Without
 * the lock: of a block that is the caller's. */
const char *guarded_judge(const void *pointer, size_t *size);

/** Does it lie in a live block? guarded_has it. */
bool guarded_is_live(const void *pointer);

/** Where the live block starts that it lies in, and its size; NULL: it lies in none. guarded_has it. */
const void *guarded_start(const void *pointer, size_t *size);

/** Writes what is known of the pointer, which was given to `function` and is wrong; one block's errors only once. Returns with
 * HAKMEM_GUARD_RECOVER=1; else the program is to be ended. */
void guarded_explain(const char *function, const void *pointer, const char *wrong);

#endif
