/* world.h - a set of live blocks and every hak_* call on them, checked as the contract says while
 * system calls fail: a call gives what was asked for, or NULL with ENOMEM because a system call was
 * refused during it; then nothing has changed, and no live block is damaged.
 */
#ifndef HAK_TEST_WORLD_H
#define HAK_TEST_WORLD_H

#include "kit.h"

#define WORLD_BLOCKS 8192

struct world {
  struct world_block {
    void *memory;
    size_t size;
    size_t alignment; /* 0: of malloc */
    uint64_t tag;
  } live[WORLD_BLOCKS];
  size_t count;
  uint64_t refused;       /* calls that gave NULL */
  uint64_t damaged_since; /* injections already followed by a check of all blocks */
  struct kit_rng rng;
};

/** An empty world; one a process, since it is large. */
struct world *world_make(uint64_t stream);

/* Each of these returns false when the allocator said no. A new block is the last of live[]. */
bool world_malloc(struct world *world, size_t size);
bool world_calloc(struct world *world, size_t count, size_t size);
bool world_aligned(struct world *world, size_t alignment, size_t size);
bool world_posix_memalign(struct world *world, size_t alignment, size_t size);
/** Resizes live[index] in place of the list; a shrink may not fail. */
bool world_realloc(struct world *world, size_t index, size_t size);
bool world_reallocarray(struct world *world, size_t index, size_t count, size_t size);

/** Frees live[index] by one of the three functions; the last block takes its place. */
void world_free(struct world *world, size_t index);
/** Frees every `step`-th block, from the first on. */
void world_free_some(struct world *world, size_t step);
void world_free_all(struct world *world);

/** One call drawn at random, sizes up to that tier. */
void world_random_step(struct world *world, enum kit_tier largest);

/** Checks the contents of all live blocks, and what the library says of them. */
void world_check(struct world *world);

/** After the faults are over: every function works in every tier, all blocks can be freed, and
 * nothing is left. Expects os_fault_reset() before it. */
void world_recover(struct world *world);

#endif
