/* asymmetric.c - one thread allocates everything, the others free it.
 *
 * The first thread fills a table with BATCH blocks; then the others free them all at once, while
 * the first fills a second table. Neighbours in the table are freed by different threads, so that
 * several threads at a time give blocks back to the same slab. A block is an operation.
 *
 * What it shows: contention where freed blocks return to their owner, and whether the owner finds
 * them again or asks for new memory instead. An allocator that keeps freed blocks with the thread
 * that freed them never gets them back: the others allocate nothing.
 */
#define _GNU_SOURCE
#include "harness.h"

struct settings {
  uint64_t threads, operations, batch, min_size, max_size;
  char **tables[2];
  pthread_barrier_t turn;
};

static void allocate(struct bench_worker *worker, const struct settings *settings, char **table,
                     uint64_t count) {
  const uint64_t size_count = settings->max_size - settings->min_size + 1;
  for (uint64_t i = 0; i < count; i++) {
    uint64_t draw = bench_draw(&worker->random);
    uint64_t size = settings->min_size + bench_below(bench_high(draw), size_count);
    char *block = bench_malloc(size);
    bench_touch(block, size, (char)draw);
    bench_stamp(block, bench_low(draw));
    table[i] = block;
  }
}

static void release(struct bench_worker *worker, const struct settings *settings, char **table,
                    uint64_t count) {
  for (uint64_t i = worker->index - 1; i < count; i += settings->threads - 1) {
    worker->checksum += bench_stamp_of(table[i]);
    free(table[i]);
    worker->operations++;
  }
}

static bool work(struct bench_worker *worker) {
  struct settings *settings = worker->shared;
  uint64_t left = settings->operations;
  uint64_t ready = 0; /* blocks in the table that was filled in the round before */
  for (uint64_t round = 0; left != 0 || ready != 0; round++) {
    uint64_t count = left < settings->batch ? left : settings->batch;
    if (worker->index == 0) allocate(worker, settings, settings->tables[round % 2], count);
    else release(worker, settings, settings->tables[(round + 1) % 2], ready);
    pthread_barrier_wait(&settings->turn);
    ready = count;
    left -= count;
  }
  return false;
}

int main(int argc, char **argv) {
  static const struct bench_argument arguments[] = {
      {"THREADS", "threads; one of them allocates", 2, BENCH_MAX_THREADS, NULL, NULL},
      {"OPERATIONS", "blocks", 1, BENCH_MAX_OPERATIONS, NULL, NULL},
      {"BATCH", "blocks of a table", 1, UINT64_C(1) << 24, NULL, NULL},
      {"MIN_SIZE", "smallest block, bytes", BENCH_STAMPED, BENCH_MAX_SIZE, NULL, NULL},
      {"MAX_SIZE", "largest block, bytes", BENCH_STAMPED, BENCH_MAX_SIZE, NULL, NULL},
      BENCH_SEED,
  };
  uint64_t values[6];
  bench_arguments(argc, argv, "One thread allocates everything, the others free it.", arguments, 6,
                  values);
  static struct settings settings;
  settings = (struct settings){
      .threads = values[0],
      .operations = values[1],
      .batch = values[2],
      .min_size = values[3],
      .max_size = values[4],
  };
  bench_ordered("MIN_SIZE", settings.min_size, "MAX_SIZE", settings.max_size);
  for (int i = 0; i < 2; i++) settings.tables[i] = bench_map(settings.batch * sizeof(char *));
  pthread_barrier_init(&settings.turn, NULL, (unsigned)settings.threads);

  struct bench_result result = bench_run(settings.threads, work, &settings, values[5]);
  bench_report(&result);
  return 0;
}
