/* random_mixed.c - random malloc and free over a table of slots.
 *
 * Each iteration draws a slot. A full slot is freed; an empty one gets a block of a uniformly
 * random size, whose first and last byte are written. So half of the iterations are a malloc and
 * half a free, and about half of the slots hold a block at any time.
 *
 * The harness has to stay small beside what it measures: one draw of a shift-register generator
 * gives both the slot (low half) and the size (high half), each by a multiplication instead of a
 * division. That is 27 instructions an iteration without the allocator's own (28 when malloc is
 * called through a PLT; callgrind, gcc 12, x86-64).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

#include "allocator.h"

#define MAX_SLOTS (UINT64_C(1) << 30)
#define MAX_SIZE (UINT64_C(1) << 30)
#define MAX_THREADS 1024

struct settings {
  uint64_t iterations; /* of each thread */
  uint64_t slots;      /* of each thread */
  uint64_t seed;
  uint64_t threads;
  uint64_t min_size, max_size;
};

struct worker {
  const struct settings *settings;
  pthread_barrier_t *start; /* NULL when the worker is alone */
  char **slots;
  uint64_t state;
  double begin, end; /* seconds, monotonic */
  double cpu;        /* seconds of processor time */
  pthread_t thread;
};

static const char *program = "bench_random_mixed";

static _Noreturn void fail(const char *format, const char *what, const char *value) {
  fprintf(stderr, "%s: ", program);
  fprintf(stderr, format, what, value);
  fputc('\n', stderr);
  exit(2);
}

/* --- the measured loop ---------------------------------------------------------------------- */

static double read_clock(clockid_t id) {
  struct timespec time;
  clock_gettime(id, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* Spreads a seed over all bits (splitmix64), so that seeds 1 and 2 give unrelated runs. The
 * generator below would stay at 0 for ever. */
static uint64_t spread(uint64_t seed) {
  seed += UINT64_C(0x9e3779b97f4a7c15);
  seed = (seed ^ (seed >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  seed = (seed ^ (seed >> 27)) * UINT64_C(0x94d049bb133111eb);
  seed ^= seed >> 31;
  return seed != 0 ? seed : 1;
}

/* Returns the iterations left over: 0, or more when memory ran out. */
static __attribute__((noinline)) uint64_t churn(struct worker *worker) {
  const uint64_t slot_count = worker->settings->slots;
  const uint64_t min_size = worker->settings->min_size;
  const uint64_t size_count = worker->settings->max_size - min_size + 1;
  char **const slots = worker->slots;
  uint64_t left = worker->settings->iterations;
  uint64_t state = worker->state;
  for (; left != 0; left--) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    char **slot = &slots[(uint32_t)state * slot_count >> 32];
    if (*slot != NULL) {
      free(*slot);
      *slot = NULL;
    } else {
      uint64_t size = min_size + ((state >> 32) * size_count >> 32);
      char *block = malloc(size);
      if (__builtin_expect(block == NULL, 0)) break;
      block[0] = (char)state;
      block[size - 1] = (char)state;
      *slot = block;
    }
  }
  return left;
}

static void *work(void *argument) {
  struct worker *worker = argument;
  if (worker->start != NULL) pthread_barrier_wait(worker->start);
  worker->cpu = -read_clock(CLOCK_THREAD_CPUTIME_ID);
  worker->begin = read_clock(CLOCK_MONOTONIC);
  uint64_t left = churn(worker);
  worker->end = read_clock(CLOCK_MONOTONIC);
  worker->cpu += read_clock(CLOCK_THREAD_CPUTIME_ID);
  if (left != 0) {
    char text[32];
    snprintf(text, sizeof text, "%" PRIu64, worker->settings->iterations - left);
    fail("out of memory%s after %s iterations", "", text);
  }
  for (uint64_t i = 0; i < worker->settings->slots; i++) free(worker->slots[i]);
  return NULL;
}

struct outcome {
  double throughput; /* operations a second, from the first start to the last end */
  double cpu_ns;     /* processor time of an operation: steadier on a busy machine */
};

static struct outcome run(const struct settings *settings) {
  /* Mapped, so that the table of slots is no business of the allocator under test. */
  size_t bytes = settings->threads * settings->slots * sizeof(char *);
  char **slots = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (slots == MAP_FAILED) fail("no memory for the slots%s: %s", "", strerror(errno));
  static struct worker workers[MAX_THREADS];
  pthread_barrier_t start;
  for (uint64_t i = 0; i < settings->threads; i++) {
    workers[i].settings = settings;
    workers[i].slots = slots + i * settings->slots;
    workers[i].state = spread(settings->seed + i * UINT64_C(0x100000001));
  }
  if (settings->threads == 1) {
    work(&workers[0]);
  } else {
    pthread_barrier_init(&start, NULL, (unsigned)settings->threads);
    for (uint64_t i = 0; i < settings->threads; i++) {
      workers[i].start = &start;
      int error = pthread_create(&workers[i].thread, NULL, work, &workers[i]);
      if (error != 0) fail("cannot start a thread%s: %s", "", strerror(error));
    }
    for (uint64_t i = 0; i < settings->threads; i++) pthread_join(workers[i].thread, NULL);
    pthread_barrier_destroy(&start);
  }
  double begin = workers[0].begin;
  double end = workers[0].end;
  double cpu = workers[0].cpu;
  for (uint64_t i = 1; i < settings->threads; i++) {
    cpu += workers[i].cpu;
    if (workers[i].begin < begin) begin = workers[i].begin;
    if (workers[i].end > end) end = workers[i].end;
  }
  munmap(slots, bytes);
  double seconds = end - begin;
  double operations = (double)(settings->iterations * settings->threads);
  return (struct outcome){operations / (seconds > 1e-9 ? seconds : 1e-9), cpu * 1e9 / operations};
}

/* --- report and arguments -------------------------------------------------------------------- */

/* Most resident memory in KiB. From /proc, since getrusage also counts what the process was before
 * it executed this program: a copy of the shell or script that started it. */
static long peak_resident(void) {
  long kib = -1;
  char line[256];
  FILE *status = fopen("/proc/self/status", "r");
  while (status != NULL && fgets(line, sizeof line, status) != NULL)
    if (sscanf(line, "VmHWM: %ld", &kib) == 1) break;
  if (status != NULL) fclose(status);
  return kib;
}

static uint64_t number(const char *what, const char *text, uint64_t low, uint64_t high) {
  char *end;
  errno = 0;
  uint64_t value = strtoull(text, &end, 10);
  if (text[0] < '0' || text[0] > '9' || *end != 0) fail("%s: not a number: '%s'", what, text);
  if (errno != 0 || value < low || value > high) {
    fprintf(stderr, "%s: %s: out of range: %s; accepted: %" PRIu64 "..%" PRIu64 "\n", program, what,
            text, low, high);
    exit(2);
  }
  return value;
}

static uint64_t number_of_environment(const char *name, uint64_t low, uint64_t high,
                                      uint64_t otherwise) {
  const char *text = getenv(name);
  return text != NULL && text[0] != 0 ? number(name, text, low, high) : otherwise;
}

static void usage(FILE *out) {
  fprintf(out,
          "usage: %s ITERS WS SEED [THREADS]\n"
          "  ITERS    iterations of each thread: a malloc or a free each\n"
          "  WS       slots of each thread; about half of them hold a block at any time\n"
          "  SEED     start of the random sequence\n"
          "  THREADS  default 1, or HAKMEM_BENCH_THREADS\n"
          "  --version  says which allocator this is\n"
          "environment:\n"
          "  HAKMEM_BENCH_MIN_SIZE, HAKMEM_BENCH_MAX_SIZE  sizes of blocks, default 16 and 1024\n"
          "  HAKMEM_BENCH_C7_ONLY=1                        sizes 513 to 1024\n",
          program);
}

int main(int argc, char **argv) {
  if (argv[0] != NULL) {
    const char *slash = strrchr(argv[0], '/');
    program = slash != NULL ? slash + 1 : argv[0];
  }
  char allocator[256];
  if (argc == 2 && strcmp(argv[1], "--version") == 0) {
    bench_allocator(allocator, sizeof allocator);
    printf("allocator: %s\n", allocator);
    return 0;
  }
  if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
    usage(stdout);
    return 0;
  }
  if (argc < 4 || argc > 5) {
    usage(stderr);
    return 2;
  }
  static struct settings settings;
  settings = (struct settings){
      .iterations = number("ITERS", argv[1], 1, UINT64_C(1) << 50),
      .slots = number("WS", argv[2], 1, MAX_SLOTS),
      .seed = number("SEED", argv[3], 0, UINT64_MAX),
      .min_size = number_of_environment("HAKMEM_BENCH_MIN_SIZE", 1, MAX_SIZE, 16),
      .max_size = number_of_environment("HAKMEM_BENCH_MAX_SIZE", 1, MAX_SIZE, 1024),
  };
  settings.threads = argc == 5 ? number("THREADS", argv[4], 1, MAX_THREADS)
                               : number_of_environment("HAKMEM_BENCH_THREADS", 1, MAX_THREADS, 1);
  if (number_of_environment("HAKMEM_BENCH_C7_ONLY", 0, 1, 0) == 1) {
    settings.min_size = 513;
    settings.max_size = 1024;
  }
  if (settings.min_size > settings.max_size)
    fail("%s is above %s", "HAKMEM_BENCH_MIN_SIZE", "HAKMEM_BENCH_MAX_SIZE");

  struct outcome outcome = run(&settings);

  /* Everything is printed after the run: stdio allocates too. */
  struct rusage usage_now;
  getrusage(RUSAGE_SELF, &usage_now);
  long peak_kib = peak_resident();
  bench_allocator(allocator, sizeof allocator);
  printf("allocator: %s\n", allocator);
  printf("iters=%" PRIu64 " ws=%" PRIu64 " seed=%" PRIu64 " threads=%" PRIu64 " sizes=%" PRIu64
         "..%" PRIu64 "\n",
         settings.iterations, settings.slots, settings.seed, settings.threads, settings.min_size,
         settings.max_size);
  printf("peak_rss_kb=%ld minor_faults=%ld\n", peak_kib, usage_now.ru_minflt);
  printf("cpu_ns_per_op=%.3f\n", outcome.cpu_ns);
  printf("Throughput = %.0f ops/s\n", outcome.throughput);
  return 0;
}
