/* malloc_large.c - buffers of many MiB, replaced at random, every page of them written.
 *
 * A table of SLOTS buffers; a step frees one and allocates another, of a uniformly random size
 * between MIN_MIB and MAX_MIB MiB. A buffer is an operation.
 *
 * What it shows: whether freed Huge blocks are used again. One that is unmapped costs a page fault
 * and the clearing of a page for every 4 KiB of its successor, which is most of the time here; one
 * that is kept costs resident memory.
 */
#define _GNU_SOURCE
#include "harness.h"

struct settings {
  uint64_t threads, operations, slots, min_size, max_size;
  char **table; /* slots of all threads */
};

static bool work(struct bench_worker *worker) {
  const struct settings *settings = worker->shared;
  char **slots = settings->table + worker->index * settings->slots;
  worker->operations = bench_share(settings->operations, settings->threads, worker->index);
  for (uint64_t i = 0; i < worker->operations; i++) {
    uint64_t draw = bench_draw(&worker->random);
    char **slot = &slots[bench_below(bench_low(draw), settings->slots)];
    if (*slot != NULL) worker->checksum += bench_stamp_of(*slot);
    free(*slot);
    uint64_t size = settings->min_size +
                    bench_below(bench_high(draw), settings->max_size - settings->min_size + 1);
    *slot = bench_malloc(size);
    bench_touch(*slot, size, (char)draw);
    bench_stamp(*slot, bench_low(draw) | 1);
  }
  return false;
}

int main(int argc, char **argv) {
  static const struct bench_argument arguments[] = {
      BENCH_THREADS,
      {"OPERATIONS", "buffers of all threads", 1, BENCH_MAX_OPERATIONS, NULL, NULL},
      {"SLOTS", "buffers of each thread that are in use", 1, 1 << 16, NULL, "20"},
      {"MIN_MIB", "smallest buffer, MiB", 1, 1024, NULL, "1"},
      {"MAX_MIB", "largest buffer, MiB", 1, 1024, NULL, "25"},
      BENCH_SEED,
  };
  uint64_t values[6];
  bench_arguments(argc, argv, "Buffers of many MiB, replaced at random.", arguments, 6, values);
  struct settings settings = {
      .threads = values[0],
      .operations = values[1],
      .slots = values[2],
      .min_size = values[3] << 20,
      .max_size = values[4] << 20,
  };
  bench_ordered("MIN_MIB", values[3], "MAX_MIB", values[4]);
  uint64_t slots = settings.threads * settings.slots;
  settings.table = bench_map(slots * sizeof(char *));

  struct bench_result result = bench_run(settings.threads, work, &settings, values[5]);

  for (uint64_t i = 0; i < slots; i++) {
    if (settings.table[i] != NULL) result.checksum += bench_stamp_of(settings.table[i]);
    free(settings.table[i]);
  }
  bench_report(&result);
  return 0;
}
