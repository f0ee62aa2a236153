/* profile.c - the sampler's rate and figures for the program itself. `hakmem prof` has the same from outside (tools/profile.c).
 *
 * Stacks are never freed or moved, and what lies before stacks_end is whole. So no lock is held while `each` runs, which
 * may allocate.
 */
#include "api/api.h"
#include "observe/samples.h"
#include "policy/options.h"
#include "sample/records.h"

enum {
  WORDS_A_CHUNK = SAMPLE_STACK_CHUNK_BYTES / 8,
  HEAD_WORDS = sizeof(struct sample_stack) / 8,
  OFF = -1
};

struct hak_rust_place {
  const uint64_t *addresses; /* return addresses, innermost first */
  uint64_t depth;
  uint64_t live_blocks, live_bytes, allocated_blocks, allocated_bytes; /* estimates */
};

HAK_EXPORT int64_t hak_rust_profile_rate(void);
HAK_EXPORT void hak_rust_profile_set_rate(int64_t bytes);
HAK_EXPORT bool hak_rust_profile_places(void (*each)(const struct hak_rust_place *, void *),
                                        void *context);

/** Bytes between two samples on average; -1: none are taken. */
HAK_EXPORT int64_t hak_rust_profile_rate(void) {
  int64_t rate = LOAD(samples.rate);
  if (rate == 0) rate = option_value(PROF_RATE) > 0 ? option_value(PROF_RATE) : OFF;
  return rate;
}

/** The same, as a tool writes it: each thread hears of it after its next sample, or its next 64 MiB. */
HAK_EXPORT void hak_rust_profile_set_rate(int64_t bytes) {
  STORE(samples.rate, bytes > 0 ? bytes : OFF);
}

static uint64_t whole_blocks(uint64_t parts) { return (parts + SAMPLE_BLOCK / 2) / SAMPLE_BLOCK; }

static uint64_t without(uint64_t all, uint64_t part) { return all > part ? all - part : 0; }

static struct hak_rust_place place_of(const struct sample_stack *stack) {
  /* Freed first: what is freed in between was allocated, too. */
  uint64_t freed_blocks = LOAD(stack->freed.blocks), freed_bytes = LOAD(stack->freed.bytes);
  atomic_thread_fence(memory_order_acquire);
  uint64_t blocks = LOAD(stack->allocated.blocks), bytes = LOAD(stack->allocated.bytes);
  return (struct hak_rust_place){.addresses = stack->addresses,
                                 .depth = stack->depth,
                                 .live_blocks = whole_blocks(without(blocks, freed_blocks)),
                                 .live_bytes = without(bytes, freed_bytes),
                                 .allocated_blocks = whole_blocks(blocks),
                                 .allocated_bytes = bytes};
}

/** Calls `each` for every place where a sampled block was allocated. False: this is a fork's child, where the figures cannot
 * be trusted. */
HAK_EXPORT bool hak_rust_profile_places(void (*each)(const struct hak_rust_place *, void *),
                                        void *context) {
  uint32_t end = atomic_load_explicit(&samples.stacks_end, memory_order_acquire);
  if (LOAD(samples.lost) != 0) return false;
  for (uint32_t at = 1; at < end;) {
    const struct sample_stack *stack = stack_at(at);
    uint32_t left = WORDS_A_CHUNK - at % WORDS_A_CHUNK;
    if (left < HEAD_WORDS || stack->hash == 0) {
      at += left;
      continue;
    }
    struct hak_rust_place place = place_of(stack);
    each(&place, context);
    at += HEAD_WORDS + stack->depth;
  }
  return true;
}
