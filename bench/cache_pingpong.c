/* cache_pingpong.c - threads that write to small blocks of their own: false sharing shows.
 *
 * Each thread allocates a block of SIZE bytes, writes WRITES times to it, frees it, and so on. In
 * MODE active the threads just do that: an allocator that deals one cache line out to two threads
 * makes the line travel between the cores with each write. In MODE passive each thread first gets a
 * block from the main thread, neighbours in memory, and frees it: an allocator that gives it that
 * block again makes the sharing last. A write is an operation.
 *
 * The idea is that of the cache tests of Berger's Hoard allocator, 2000. The time of the calls
 * themselves hardly counts here.
 */
#define _GNU_SOURCE
#include "harness.h"

struct settings {
  bool passive;
  uint64_t threads, rounds, writes, size;
  volatile unsigned char *first[BENCH_MAX_THREADS];
};

static volatile unsigned char *make_block(uint64_t size) {
  volatile unsigned char *block = bench_malloc(size);
  for (uint64_t i = 0; i < size; i++) block[i] = 0;
  return block;
}

static bool work(struct bench_worker *worker) {
  struct settings *settings = worker->shared;
  uint64_t rounds = bench_share(settings->rounds, settings->threads, worker->index);
  if (settings->passive) free((void *)settings->first[worker->index]);
  for (uint64_t round = 0; round < rounds; round++) {
    volatile unsigned char *block = make_block(settings->size);
    uint64_t at = 0;
    for (uint64_t i = 0; i < settings->writes; i++) {
      block[at]++;
      if (++at == settings->size) at = 0;
    }
    worker->checksum += block[0];
    free((void *)block);
  }
  worker->operations = rounds * settings->writes;
  return false;
}

int main(int argc, char **argv) {
  static const struct bench_argument arguments[] = {
      {"MODE", "whether threads first free a block of the main thread", 0, 0, "active|passive",
       NULL},
      BENCH_THREADS,
      {"ROUNDS", "blocks of all threads", 1, BENCH_MAX_OPERATIONS, NULL, NULL},
      {"WRITES", "writes to each block", 1, BENCH_MAX_OPERATIONS, NULL, NULL},
      {"SIZE", "bytes of a block", 1, 4096, NULL, "8"},
  };
  uint64_t values[5];
  bench_arguments(argc, argv, "Threads that write to small blocks of their own.", arguments, 5,
                  values);
  static struct settings settings;
  settings = (struct settings){
      .passive = values[0] == 1,
      .threads = values[1],
      .rounds = values[2],
      .writes = values[3],
      .size = values[4],
  };
  if (settings.passive)
    for (uint64_t i = 0; i < settings.threads; i++) settings.first[i] = make_block(settings.size);

  struct bench_result result = bench_run(settings.threads, work, &settings, 0);
  bench_report(&result);
  return 0;
}
