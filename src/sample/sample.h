/* sample.h - one block in 2 MiB is looked at more closely, chosen by chance: where it was allocated, and whether it lives.
 *
 * Each thread counts the bytes that it asks for down, in one instruction of malloc's fast path, from a number drawn from the
 * exponential distribution with the rate as its mean (a Poisson process over bytes). The block that takes it below 0
 * is a sample, and a new number is drawn. Since the distribution has no memory, a block of `size` bytes is one
 * with probability 1 - e^(-size / rate), whatever came before it: also where one block is freed and allocated for ever.
 * After jemalloc's PROFILING_INTERNALS and tcmalloc's sampling documents, which derive it. A thread whose samples come more often
 * than HAKMEM_PROF_MOST a second draws with a higher rate until they do not, as does the next that has its heap. What a sample
 * stands for is worked out with the rate that it was drawn with, which depends on nothing that comes after.
 *
 * Samples that fit into slabs lie in slabs of a heap that no thread has, of which the address map names no bin. So free()
 * leaves its fast path for them by the branch that it has for blocks that are not its own. Large and Huge ones have a mark in
 * their descriptor. What is kept of them stands in observe/samples.h.
 */
#ifndef HAK_SAMPLE_H
#define HAK_SAMPLE_H

#include "heap/heap.h"
#include "observe/requests.h"
#include "observe/samples.h"

/** Has a tool asked this thread for something (observe/requests.h)? What sample_crosses has found is no sample then. */
HAK_INLINE bool sample_has_request(void) {
  return HAK_UNLIKELY(malloc_thread.sample_left < SAMPLE_LEFT_REQUESTED / 2);
}

/** Counts an allocation of `size` bytes; true: sample_is_due has to be asked. */
HAK_INLINE bool sample_crosses(size_t size) {
  return !HAK_FAST && HAK_UNLIKELY((malloc_thread.sample_left -= (int64_t)size) < 0);
}

/** Is this allocation a sample? Draws what is left to the next one. For sizes up to PTRDIFF_MAX. */
bool sample_is_due(size_t size);

/** A block of `size` bytes at a multiple of `alignment`, of which ordinary ones are of `size_class`, in the sampler's
 * slabs, with its record. NULL: there is no memory, it becomes an ordinary block. `zeroed`: see refill. */
void *sample_allocate(size_t size, size_t alignment, unsigned size_class, bool *zeroed);
/** Frees it; returns the class it was counted in, CLASS_COUNT: there is no such block (any more). */
unsigned sample_free(struct slab *slab, void *block);
/** Frees one that is guarded (guarded.h), live, and of this size; returns the class it was counted in. */
unsigned sample_free_guarded(void *block, size_t size);
/** Bytes that the program may use of it: as many as of an ordinary block of the size that it asked for. */
size_t sample_usable(const struct slab *slab, const void *block);
/** The same without waiting for a lock; where another thread has it: the bytes of its slot, which may be more. */
size_t sample_usable_at_once(const struct slab *slab, const void *block);

/** The same for Large and Huge blocks, which stay where they are. `descriptor`: the first one. */
void sample_mark(struct slab *descriptor, const void *block, size_t size);
/** It is freed. */
void sample_unmark(struct slab *descriptor, const void *block);
/** It has grown to `size` bytes where it is: a sample of fewer is one of more, too. What is kept may stay 1% behind. */
void sample_grow(const void *block, size_t size);
/** While its size changes in another way: takes the record out; false: there is none. Then one of the next two. */
bool sample_lift(struct slab *descriptor, const void *block, struct sample_record *record);
/** It has grown to `size` bytes, or has this size still. */
void sample_put_back(struct slab *descriptor, const void *block, size_t size,
                     struct sample_record *record);
/** It has been freed, or counts as another block from now on. */
void sample_drop(const struct sample_record *record);

/** Is the slab the sampler's, or the Large or Huge block a sample? */
HAK_INLINE bool sample_has(const struct slab *descriptor) {
  /* relaxed: who frees a block got it from who allocated it */
  return HAK_UNLIKELY(atomic_load_explicit(&descriptor->sampled, memory_order_relaxed) != 0);
}

#endif
