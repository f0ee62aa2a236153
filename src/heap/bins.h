/* bins.h - blocks into bins and out of them; how many a bin keeps. */
#ifndef HAK_BINS_H
#define HAK_BINS_H

#include "heap/heap.h"

/* A bin that ran over so many times without a refill shrinks: its thread only frees the class. */
enum { OVERFLOWS_SHRINK = 4 };

HAK_INLINE void *bin_pop(struct bin *bin) {
  void *block = bin->head;
  if (HAK_LIKELY(block != NULL)) {
    bin->head = link_next(block);
    /* The next call reads the next block's link, which another processor may have written: docs/decisions/0014. */
    __builtin_prefetch(bin->head);
    bin->room++;
  }
  return block;
}

/** The same of a bin that has blocks, with all that is to be checked: `place` is the bin's. */
HAK_INLINE void *bin_hand_out(struct bin *bin, size_t place) {
  void *block = bin->head, *next;
  if (HAK_UNLIKELY(!link_try(block, &next))) return link_refuse(block);
  bin->head = next;
  __builtin_prefetch(next);
  bin->room++;
  return link_hand_out(block, place);
}

/* True when the bin is over its capacity now. */
HAK_INLINE bool bin_push(struct bin *bin, void *block) {
  link_set(block, bin->head);
  bin->head = block;
  return --bin->room < 0;
}

/* One less; is it below 0? GCC would add up the address of what it reads and writes first. */
HAK_INLINE bool bin_count_down(int32_t *room) {
#if defined(__x86_64__)
  bool below;
  __asm__("subl $1, %0" : "+m"(*room), "=@ccs"(below));
  return below;
#else
  return --*room < 0;
#endif
}

/** The same with cache_bin_at(cache, place). Not a pointer but both parts of it are used for each access, which x86-64 adds up by
 * itself: one instruction fewer. */
HAK_INLINE bool bin_push_at(struct thread_cache *cache, size_t place, void *block) {
  link_set(block, cache_bin_at(cache, place)->head);
  HAK_ADDED_ANEW(cache);
  cache_bin_at(cache, place)->head = block;
  HAK_ADDED_ANEW(cache);
  return bin_count_down(&cache_bin_at(cache, place)->room);
}

/** Called when a bin's room has fallen below 0: lets it grow, or returns its colder half. The heap's thread only, which holds no
 * lock, and calls release_answer after it. */
void bin_overflow(struct thread_cache *cache, struct bin *bin);

/** The block that a bin was given last, which is over its capacity, if its thread only frees the class, in a home that others share: these
 * want it, so it is better gathered for the home. Else NULL. As bin_overflow. */
void *bin_pass_on(struct thread_cache *cache, struct bin *bin);

/** Puts a block of the heap's slabs back into its slab instead of a bin. The heap's thread only, which holds no lock, and calls
 * release_answer after it. */
void bin_pass_by(struct thread_cache *cache, struct bin *bin, void *block);

/** Adds up anew what all capacities are. */
void bins_count(struct thread_cache *cache);

/** A guest's thread begins, with empty bins. */
void bins_begin(struct thread_cache *cache);

/** A guest's thread ends: all that its bins hold goes to its arena, and they are as at first. */
void bins_send_home(struct thread_cache *cache);

/** Bytes in so many bins as there are classes. Their thread, or under its lock while it has none. */
size_t bins_bytes(const struct bin *bins);

/** Puts all but the `keep` blocks that were freed last back into their slabs. Takes the heap's lock. */
void bin_trim(struct thread_cache *cache, struct bin *bin, uint32_t keep);

#endif
