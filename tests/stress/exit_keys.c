/* Allocations and frees in the destructors of pthread keys, through all the rounds that POSIX allows,
 * with keys made before and after the first allocation: whichever way round the allocator's own
 * clean-up runs, nothing may be lost.
 *
 * usage: exit_keys [threads] */
#include "kit.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#define WAVE 4
#define KEYS 4
#define SLOTS 64

/* POSIX promises no fifth round, and TSan leaves the thread in the fourth. */
#define ROUNDS (KIT_TSAN ? 3 : PTHREAD_DESTRUCTOR_ITERATIONS)

static pthread_key_t keys[KEYS];
static _Atomic(kit_block) slots[SLOTS];
static atomic_ulong destroyed;

/* What a key holds is a block, whose size tells the key. */
static void destroy(void *value) {
  static _Thread_local unsigned calls[KEYS];
  kit_block block = (kit_block)value;
  size_t size = kit_block_size(block);
  size_t key = size % KEYS;
  kit_block_free(block);
  unsigned long count = atomic_fetch_add(&destroyed, 1);
  struct kit_rng rng = kit_rng_make(count);
  for (int tier = 0; tier < KIT_TIERS; ++tier) {
    kit_block here = kit_block_any(&rng, kit_tier_size(&rng, (enum kit_tier)tier));
    CHECK(here, "malloc failed in a destructor");
    if (tier == KIT_HUGE) kit_block_free(here);
    else kit_block_free(atomic_exchange(&slots[kit_below(&rng, SLOTS)], here));
  }
  if (++calls[key] < ROUNDS) {
    kit_block again = kit_block_malloc(size, count);
    CHECK(again, "malloc failed in a destructor");
    pthread_setspecific(keys[key], (void *)again);
  }
}

static void *work(void *argument) {
  uintptr_t number = (uintptr_t)argument;
  for (size_t key = 0; key < KEYS; ++key)
    /* Some threads hold only some keys, some make no allocation before the value is set. */
    if (number & ((uintptr_t)1 << key) || number % 3 == 0) {
      kit_block block = kit_block_malloc(100 * KEYS + key, number);
      CHECK(block, "malloc failed");
      pthread_setspecific(keys[key], (void *)block);
    }
  return NULL;
}

int main(int argc, char **argv) {
  /* Two keys before the allocator is first used by this program, two after. */
  for (size_t key = 0; key < KEYS; ++key) {
    CHECK(pthread_key_create(&keys[key], destroy) == 0, "pthread_key_create");
    if (key == 1) mem_free(mem_malloc(1));
  }
  kit_start();
  uintptr_t threads = argc > 1 ? strtoul(argv[1], NULL, 10) : kit_rounds(2000);
  for (uintptr_t first = 0; first < threads; first += WAVE) {
    pthread_t ids[WAVE];
    for (uintptr_t i = 0; i < WAVE; ++i)
      CHECK(pthread_create(&ids[i], NULL, work, (void *)(first + i)) == 0, "cannot create thread");
    for (uintptr_t i = 0; i < WAVE; ++i) pthread_join(ids[i], NULL);
  }
  for (size_t i = 0; i < SLOTS; ++i) kit_block_free(slots[i]);
  kit_purge();
  struct hak_stats stats = kit_stats();
  printf("%lu threads, %lu destructors: left %lu superslabs, %lu huge, heaps %lu active + %lu "
         "parked\n",
         (unsigned long)threads, (unsigned long)destroyed, (unsigned long)stats.superslabs_live,
         (unsigned long)stats.huge_live, (unsigned long)stats.heaps_active,
         (unsigned long)stats.heaps_parked);
  CHECK(destroyed >= threads, "the destructors did not run");
  CHECK(stats.huge_live == 0, "huge blocks are left");
  CHECK(stats.superslabs_live <= 4, "superslabs of ended threads are left");
  CHECK(stats.heaps_active == 1,
        "a heap was taken after the thread's clean-up and never given back");
  CHECK(stats.heaps_active + stats.heaps_parked <= WAVE + 1, "more heaps than threads at a time");
  return 0;
}
