/* lived.c - threads that have lived: what do they leave behind?
 *
 * AT_ONCE threads take BLOCKS blocks of 16 bytes and more, each STEP bytes larger than the one before, write to them, free them when all have
 * theirs, and end. That is done until THREADS have lived. Then the main thread makes CALLS small allocations each 10 ms for SECONDS, and forks
 * some children that end at once. An operation is a malloc or a free of these threads.
 *
 * What it shows: resident memory before and after, for each thread, with its stack if libc keeps it; processor time of a fork and of its child.
 */
#define _GNU_SOURCE
#include "harness.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FORKS = 40, STACK_BYTES = 64 << 10, BLOCKS_MOST = 4096, A_SECOND = 100 };

struct settings {
  uint64_t threads, at_once, blocks, step, calls, seconds;
  pthread_barrier_t filled;
  long before, after;
  double parent, child; /* seconds of a processor, of one fork */
};

static void *live(void *argument) {
  struct settings *settings = argument;
  char **blocks = bench_map(settings->blocks * sizeof *blocks);
  for (uint64_t i = 0; i < settings->blocks; i++) {
    blocks[i] = bench_malloc(16 + i * settings->step);
    memset(blocks[i], 1, 16);
  }
  pthread_barrier_wait(&settings->filled);
  for (uint64_t i = 0; i < settings->blocks; i++) free(blocks[i]);
  bench_unmap_rest(blocks, 0, settings->blocks * sizeof *blocks);
  return NULL;
}

static void some_live(struct settings *settings, pthread_t *threads) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, STACK_BYTES);
  for (uint64_t i = 0; i < settings->at_once; i++) {
    int error = pthread_create(&threads[i], &attributes, live, settings);
    if (error != 0) bench_fail(BENCH_FAILED, "cannot start a thread: %s", strerror(error));
  }
  for (uint64_t i = 0; i < settings->at_once; i++) pthread_join(threads[i], NULL);
  pthread_attr_destroy(&attributes);
}

static void go_on(const struct settings *settings) {
  double begin = bench_clock(CLOCK_MONOTONIC);
  for (uint64_t i = 0; i < settings->seconds * A_SECOND; i++) {
    for (uint64_t k = 0; k < settings->calls; k++) free(bench_malloc(100 + i % 500));
    bench_sleep_until(begin + (double)i / A_SECOND);
  }
}

static double processor(int whose) {
  struct rusage usage;
  getrusage(whose, &usage);
  return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static void fork_some(struct settings *settings) {
  double parent = processor(RUSAGE_SELF), child = processor(RUSAGE_CHILDREN);
  for (int i = 0; i < FORKS; i++) {
    pid_t process = fork();
    if (process == 0) _exit(0);
    if (process < 0) bench_fail(BENCH_FAILED, "cannot fork: %s", strerror(errno));
    waitpid(process, NULL, 0);
  }
  settings->parent = (processor(RUSAGE_SELF) - parent) / FORKS;
  settings->child = (processor(RUSAGE_CHILDREN) - child) / FORKS;
}

static bool work(struct bench_worker *worker) {
  struct settings *settings = worker->shared;
  pthread_t *threads = bench_map(settings->at_once * sizeof *threads);
  settings->before = bench_resident_now();
  for (uint64_t lived = 0; lived < settings->threads; lived += settings->at_once) {
    some_live(settings, threads);
    worker->operations += 2 * settings->at_once * settings->blocks;
  }
  go_on(settings);
  settings->after = bench_resident_now();
  fork_some(settings);
  return false;
}

int main(int argc, char **argv) {
  static const struct bench_argument arguments[] = {
      {"THREADS", "threads in all", 1, 1000000, NULL, NULL},
      {"AT_ONCE", "so many of them at a time", 1, 20000, NULL, NULL},
      {"BLOCKS", "blocks of each", 1, BLOCKS_MOST, NULL, "200"},
      {"STEP", "bytes by which each is larger than the one before", 0, 1024, NULL, "4"},
      {"CALLS", "allocations of the main thread each 10 ms after that", 0, 100000, NULL, "20"},
      {"SECONDS", "for so long", 0, 86400, NULL, "5"},
      BENCH_SEED,
  };
  uint64_t values[7];
  bench_arguments(argc, argv, "Threads that have lived: what do they leave behind?", arguments, 7,
                  values);
  static struct settings settings;
  settings = (struct settings){.threads = values[0],
                               .at_once = values[1],
                               .blocks = values[2],
                               .step = values[3],
                               .calls = values[4],
                               .seconds = values[5]};
  pthread_barrier_init(&settings.filled, NULL, (unsigned)settings.at_once);

  struct bench_result result = bench_run(1, work, &settings, values[6]);

  printf("lived: threads=%" PRIu64 " before_kb=%ld resident_kb=%ld a_thread_bytes=%.0f\n",
         settings.threads, settings.before, settings.after,
         (double)(settings.after - settings.before) * 1024 / (double)settings.threads);
  printf("fork: parent_us=%.0f child_us=%.0f\n", settings.parent * 1e6, settings.child * 1e6);
  bench_report(&result);
  return 0;
}
