/* 10,000 short-lived threads, eight at a time. Each leaves live blocks behind that others free after
 * it has ended. In the end nothing of them is left: no SuperSlab, no heap beyond the eight.
 *
 * usage: churn [threads] */
#include "kit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#define WAVE 8
#define SLOTS 512
#define BLOCKS 48

static _Atomic(kit_block) slots[SLOTS];

static void *work(void *argument) {
  struct kit_rng rng = kit_rng_make((uintptr_t)argument);
  for (size_t i = 0; i < BLOCKS; ++i) {
    kit_block block = kit_block_any(&rng, kit_any_size(&rng));
    CHECK(block, "malloc failed");
    kit_block_free(
        atomic_exchange_explicit(&slots[kit_below(&rng, SLOTS)], block, memory_order_acq_rel));
  }
  return NULL;
}

int main(int argc, char **argv) {
  kit_start();
  uintptr_t threads = argc > 1 ? strtoul(argv[1], NULL, 10) : kit_rounds(10000);
  size_t warm = 0;
  for (uintptr_t first = 0; first < threads; first += WAVE) {
    pthread_t ids[WAVE];
    for (uintptr_t i = 0; i < WAVE; ++i)
      CHECK(pthread_create(&ids[i], NULL, work, (void *)(first + i)) == 0, "cannot create thread");
    for (uintptr_t i = 0; i < WAVE; ++i) pthread_join(ids[i], NULL);
    if (first <= threads / 4) warm = kit_stats().bytes_mapped;
  }
  struct hak_stats full = kit_stats();
  size_t live = 0;
  for (size_t i = 0; i < SLOTS; ++i) {
    live += slots[i] ? kit_block_size(slots[i]) : 0;
    kit_block_free(slots[i]);
  }
  kit_purge();
  struct hak_stats stats = kit_stats();
  printf(
      "%lu threads: mapped %lu MB after a quarter, %lu MB at the end (%zu MB live); after freeing "
      "all: %lu superslabs, %lu huge, heaps %lu active + %lu parked, %lu KB mapped\n",
      (unsigned long)threads, (unsigned long)(warm / KIT_MB),
      (unsigned long)(full.bytes_mapped / KIT_MB), live / KIT_MB,
      (unsigned long)stats.superslabs_live, (unsigned long)stats.huge_live,
      (unsigned long)stats.heaps_active, (unsigned long)stats.heaps_parked,
      (unsigned long)(stats.bytes_mapped / KIT_KB));
  CHECK(full.bytes_mapped <= 2 * warm + 32 * KIT_MB,
        "memory grows with the number of ended threads");
  CHECK(stats.superslabs_live <= 4, "superslabs of ended threads are left");
  CHECK(stats.huge_live == 0, "huge blocks are left");
  CHECK(stats.heaps_active == 1, "heaps of ended threads are still active");
  CHECK(stats.heaps_active + stats.heaps_parked <= WAVE + 1, "more heaps than threads at a time");
  return 0;
}
