/* figures.c - statistics that are read while threads allocate and free in all tiers: no figure is below zero, which
 * would make a number above the address space of it, and none is more than what it is a part of.
 *
 * usage: figures [milliseconds] */
#include "kit.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define WORKERS 3
#define SLOTS 16
#define ADDRESS_SPACE ((uint64_t)1 << 47)
#define FIGURE(struct_, field) plausible(#field, (uint64_t)(struct_).field)

static _Atomic(kit_block) slots[SLOTS];
static atomic_bool stop;
static int (*memory_stats_get)(struct hak_memory_stats *);

static void plausible(const char *name, uint64_t value) {
  CHECK(value < ADDRESS_SPACE, "%s is %llu", name, (unsigned long long)value);
}

static void *work(void *argument) {
  struct kit_rng rng = kit_rng_make((uintptr_t)argument);
  for (int i = 0; i < 200 && !atomic_load(&stop); i++) {
    size_t size = kit_below(&rng, 3) == 0 ? KIT_MB + (size_t)kit_below(&rng, 64 * KIT_MB)
                                          : kit_any_size(&rng);
    void *block = mem_malloc(size);
    CHECK(block != NULL, "malloc(%zu) failed", size);
    if (kit_below(&rng, 2) == 0) {
      size_t other = KIT_MB + (size_t)kit_below(&rng, 64 * KIT_MB);
      void *resized = mem_realloc(block, other);
      CHECK(resized != NULL, "realloc to %zu failed", other);
      block = resized;
    }
    mem_free((void *)atomic_exchange(&slots[kit_below(&rng, SLOTS)], (kit_block)block));
  }
  return NULL;
}

/* Threads that come and go: their heaps are parked, and taken again. */
static void *work_in_turns(void *argument) {
  for (uintptr_t turn = (uintptr_t)argument; !atomic_load(&stop); turn += WORKERS) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, work, (void *)turn) == 0, "cannot create a thread");
    pthread_join(thread, NULL);
  }
  return NULL;
}

static void look_at_stats(void) {
  struct hak_stats stats = kit_stats();
  FIGURE(stats, superslabs_live);
  FIGURE(stats, superslabs_warm);
  FIGURE(stats, superslabs_peak);
  FIGURE(stats, huge_live);
  FIGURE(stats, huge_bytes);
  FIGURE(stats, heaps_active);
  FIGURE(stats, heaps_parked);
  FIGURE(stats, bytes_mapped);
  FIGURE(stats, bytes_slab);
  FIGURE(stats, bytes_metadata);
  CHECK(stats.bytes_mapped >= stats.bytes_slab + stats.huge_bytes,
        "%llu bytes are mapped, %llu in slabs, %llu in huge blocks",
        (unsigned long long)stats.bytes_mapped, (unsigned long long)stats.bytes_slab,
        (unsigned long long)stats.huge_bytes);
}

static void look_at_memory(void) {
  struct hak_memory_stats stats = {.size = sizeof stats};
  if (memory_stats_get == NULL) return;
  CHECK(memory_stats_get(&stats) == 0, "hak_memory_stats_get failed");
  FIGURE(stats, resident);
  FIGURE(stats, live);
  FIGURE(stats, pinned);
  FIGURE(stats, bins);
  FIGURE(stats, cached);
  FIGURE(stats, metadata);
  FIGURE(stats, given);
}

#if HAK_TEST_PRELOAD
static void look_at_mallinfo(void) {
  struct mallinfo2 info = mallinfo2();
  FIGURE(info, arena);
  FIGURE(info, ordblks);
  FIGURE(info, hblks);
  FIGURE(info, hblkhd);
  FIGURE(info, uordblks);
  FIGURE(info, fordblks);
  FIGURE(info, keepcost);
  CHECK(info.uordblks <= info.arena && info.keepcost <= info.arena,
        "of an arena of %zu, %zu are in use and %zu can go", info.arena, info.uordblks,
        info.keepcost);
}

/* Every number that is a value of an attribute. */
static void look_at_malloc_info(void) {
  static char text[1 << 16];
  FILE *stream = fmemopen(text, sizeof text, "w");
  CHECK(stream != NULL && malloc_info(0, stream) == 0, "malloc_info failed");
  fclose(stream);
  for (const char *at = text; (at = strstr(at, "=\"")) != NULL; at += 2)
    plausible("a figure of malloc_info", strtoull(at + 2, NULL, 10));
}
#else
static void look_at_mallinfo(void) {}
static void look_at_malloc_info(void) {}
#endif

static uint64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

int main(int argc, char **argv) {
  kit_start();
  kit_watchdog(120);
#if HAK_TEST_PRELOAD
  memory_stats_get =
      (int (*)(struct hak_memory_stats *))dlsym(RTLD_DEFAULT, "hak_memory_stats_get");
#else
  memory_stats_get = hak_memory_stats_get;
#endif
  uint64_t end = now_ms() + (argc > 1 ? strtoull(argv[1], NULL, 10) : 2000);
  pthread_t ids[WORKERS];
  for (uintptr_t i = 0; i < WORKERS; i++)
    CHECK(pthread_create(&ids[i], NULL, work_in_turns, (void *)i) == 0, "cannot create a thread");
  unsigned long looks = 0;
  for (; looks == 0 || now_ms() < end; looks++) {
    look_at_stats();
    look_at_mallinfo();
    if (looks % 16 == 0) look_at_memory();
    if (looks % 64 == 0) look_at_malloc_info();
  }
  atomic_store(&stop, true);
  for (size_t i = 0; i < WORKERS; i++) pthread_join(ids[i], NULL);
  for (size_t i = 0; i < SLOTS; i++) mem_free((void *)slots[i]);
  printf("%lu looks\n", looks);
  return 0;
}
