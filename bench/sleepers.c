/* sleepers.c - threads that have a heap and sleep, while one thread needs more and more memory.
 *
 * SLEEPERS threads free one block each, which is on its way to them for ever, and sleep; one more frees a block and ends. Then the
 * main thread allocates BLOCKS blocks of SIZE bytes and keeps them. A block is an operation.
 *
 * What it shows: whether the way to new memory gets longer with the number of threads. Under callgrind the difference of two
 * lengths is the price of the blocks between them.
 */
#define _GNU_SOURCE
#include "harness.h"

struct settings {
  uint64_t sleepers, blocks, size;
  pthread_barrier_t asleep, over;
  void *kept; /* the last block; each holds the address of the one before it */
};

static void *sleep_until_over(void *argument) {
  struct settings *settings = argument;
  free(bench_malloc(settings->size));
  pthread_barrier_wait(&settings->asleep);
  pthread_barrier_wait(&settings->over);
  return NULL;
}

static void *end_at_once(void *argument) {
  free(bench_malloc(*(const uint64_t *)argument));
  return NULL;
}

static pthread_t start(void *(*body)(void *), void *argument) {
  pthread_t thread;
  int error = pthread_create(&thread, NULL, body, argument);
  if (error != 0) bench_fail(BENCH_FAILED, "cannot start a thread: %s", strerror(error));
  return thread;
}

static bool work(struct bench_worker *worker) {
  struct settings *settings = worker->shared;
  for (uint64_t i = 0; i < settings->blocks; i++) {
    void **block = bench_malloc(settings->size);
    *block = settings->kept;
    settings->kept = block;
    worker->operations++;
  }
  return false;
}

int main(int argc, char **argv) {
  static const struct bench_argument arguments[] = {
      {"SLEEPERS", "threads that sleep", 1, 4096, NULL, NULL},
      {"BLOCKS", "blocks that are allocated", 1, 1000000000, NULL, NULL},
      {"SIZE", "of each, bytes", BENCH_STAMPED, BENCH_MAX_SIZE, NULL, "1000"},
      BENCH_SEED,
  };
  uint64_t values[4];
  bench_arguments(argc, argv, "Memory for one thread while many sleep.", arguments, 4, values);
  static struct settings settings;
  settings.sleepers = values[0], settings.blocks = values[1], settings.size = values[2];
  pthread_t *threads = calloc(settings.sleepers, sizeof *threads);
  if (threads == NULL) bench_fail(BENCH_FAILED, "no memory for %s", "threads");
  pthread_barrier_init(&settings.asleep, NULL, (unsigned)settings.sleepers + 1);
  pthread_barrier_init(&settings.over, NULL, (unsigned)settings.sleepers + 1);
  for (uint64_t i = 0; i < settings.sleepers; i++) threads[i] = start(sleep_until_over, &settings);
  pthread_barrier_wait(&settings.asleep);
  pthread_join(start(end_at_once, &settings.size), NULL);
  struct bench_result result = bench_run(1, work, &settings, values[3]);
  pthread_barrier_wait(&settings.over);
  for (uint64_t i = 0; i < settings.sleepers; i++) pthread_join(threads[i], NULL);
  free(threads);
  bench_report(&result);
  return 0;
}
