/* random_mixed.c - random malloc and free over a table of slots.
 *
 * Each iteration draws a slot. A full slot is freed; an empty one gets a block of a uniformly
 * random size, whose first and last byte are written. So half of the iterations are a malloc and
 * half a free, and about half of the slots hold a block at any time. An iteration is an operation.
 *
 * The harness has to stay small beside what it measures: one draw of a shift-register generator
 * gives both the slot (low half) and the size (high half), each by a multiplication instead of a
 * division. That is 27 instructions an iteration without the allocator's own (28 when malloc is
 * called through a PLT; callgrind, gcc 12, x86-64). Writing a byte in every page has a loop of its
 * own, so that the plain one does not pay for it.
 *
 * With HAKMEM_BENCH_EPOCH_SEC (or _MS) a line of CSV is written after each so long a time, with
 * HAKMEM_BENCH_DURATION_SEC the run ends after that time. The loop is the same then; it is run for
 * about a millisecond at a time, and the clock is read in between.
 */
#define _GNU_SOURCE
#include "harness.h"

#define MAX_SLOTS (UINT64_C(1) << 30)
#define MAX_SECONDS 8640000 /* a hundred days */

/* Runs of the loop between two looks at the clock: doubled until one takes LOOP_SECONDS. */
#define FIRST_LOOP 256
#define LOOP_SECONDS 0.001

struct settings {
  uint64_t iterations; /* of each thread */
  uint64_t slots;      /* of each thread */
  uint64_t min_size, max_size;
  bool touch_all;
  char **table; /* slots of all threads */
  /* With epochs or a duration; 0: none. */
  uint64_t threads, epoch_milliseconds, seconds;
  bool stop; /* the time is over; set by the first thread */
};

/* Returns the iterations left over: 0, or more when memory ran out. */
static inline __attribute__((always_inline)) uint64_t
churn(const struct settings *settings, char **const slots, uint64_t state, bool touch_all) {
  const uint64_t slot_count = settings->slots;
  const uint64_t min_size = settings->min_size;
  const uint64_t size_count = settings->max_size - min_size + 1;
  uint64_t left = settings->iterations;
  for (; left != 0; left--) {
    bench_draw(&state);
    char **slot = &slots[bench_below(bench_low(state), slot_count)];
    if (*slot != NULL) {
      free(*slot);
      *slot = NULL;
    } else {
      uint64_t size = min_size + bench_below(bench_high(state), size_count);
      char *block = malloc(size);
      if (__builtin_expect(block == NULL, 0)) break;
      if (touch_all) {
        bench_touch(block, size, (char)state);
      } else {
        block[0] = (char)state;
        block[size - 1] = (char)state;
      }
      *slot = block;
    }
  }
  return left;
}

/* Not inlined: as arguments, `slots` and `state` stay in registers of their own. */
static __attribute__((noinline)) uint64_t churn_ends(const struct settings *settings, char **slots,
                                                     uint64_t state) {
  return churn(settings, slots, state, false);
}

static __attribute__((noinline)) uint64_t churn_all(const struct settings *settings, char **slots,
                                                    uint64_t state) {
  return churn(settings, slots, state, true);
}

static void run_loop(struct bench_worker *worker, const struct settings *settings, uint64_t state) {
  char **slots = settings->table + worker->index * settings->slots;
  uint64_t left =
      settings->touch_all ? churn_all(settings, slots, state) : churn_ends(settings, slots, state);
  /* Other threads read it for their epoch; nobody else writes. */
  uint64_t operations = worker->operations + settings->iterations - left;
  __atomic_store_n(&worker->operations, operations, __ATOMIC_RELAXED);
  if (left != 0)
    bench_fail(BENCH_BAD_INPUT, "out of memory after %" PRIu64 " iterations", operations);
}

static bool work(struct bench_worker *worker) {
  run_loop(worker, worker->shared, worker->random);
  return false;
}

struct epochs {
  uint64_t written;
  double since;        /* the last line */
  uint64_t operations; /* of all threads until then */
};

/* Writes a line when an epoch is over. Only whole epochs get one. */
static void look_at_epoch(struct epochs *epochs, const struct settings *settings, double begin,
                          double now) {
  double length = (double)settings->epoch_milliseconds * 1e-3;
  /* On the grid of the first epoch, so that a late line does not shift those after it. */
  uint64_t over = (uint64_t)((now - begin) / length);
  if (over == (uint64_t)((epochs->since - begin) / length)) return;
  uint64_t operations = 0;
  for (uint64_t i = 0; i < settings->threads; i++)
    operations += __atomic_load_n(&bench_worker_at(i)->operations, __ATOMIC_RELAXED);
  uint64_t milliseconds = (uint64_t)((now - begin) * 1e3);
  double throughput = (double)(operations - epochs->operations) / (now - epochs->since);
  bench_line("%" PRIu64 ",%" PRIu64 ".%03" PRIu64 ",%" PRIu64 ",%ld\n", ++epochs->written,
             milliseconds / 1000, milliseconds % 1000, (uint64_t)throughput, bench_resident_now());
  epochs->since = now;
  epochs->operations = operations;
}

/* The same iterations in short runs of the loop, each with random numbers of its own. */
static bool work_by_the_clock(struct bench_worker *worker) {
  struct settings *settings = worker->shared;
  struct settings loop = *settings;
  struct epochs epochs = {.since = worker->begin};
  loop.iterations = FIRST_LOOP;
  double now = worker->begin;
  for (uint64_t left = settings->iterations, run = 0; left != 0; run++) {
    if (loop.iterations > left) loop.iterations = left;
    run_loop(worker, &loop, bench_spread(worker->random + run));
    left -= loop.iterations;
    double before = now;
    now = bench_clock(CLOCK_MONOTONIC);
    if (now - before < LOOP_SECONDS) loop.iterations *= 2;
    if (worker->index == 0) {
      if (settings->epoch_milliseconds != 0) look_at_epoch(&epochs, settings, worker->begin, now);
      if (settings->seconds != 0 && now - worker->begin >= (double)settings->seconds)
        __atomic_store_n(&settings->stop, true, __ATOMIC_RELAXED);
    }
    if (__atomic_load_n(&settings->stop, __ATOMIC_RELAXED)) break;
  }
  return false;
}

static uint64_t number_of_environment(const char *name, uint64_t low, uint64_t high,
                                      uint64_t otherwise) {
  const char *text = getenv(name);
  return text != NULL && text[0] != 0 ? bench_number(name, text, low, high) : otherwise;
}

static const char idea[] =
    "Random malloc and free over a table of slots.\n"
    "environment:\n"
    "  HAKMEM_BENCH_MIN_SIZE, HAKMEM_BENCH_MAX_SIZE  sizes of blocks in bytes, default 16 and "
    "1024\n"
    "  HAKMEM_BENCH_C7_ONLY=1                        sizes 513 to 1024\n"
    "  HAKMEM_BENCH_THREADS                          default of THREADS, otherwise 1\n"
    "  HAKMEM_BENCH_TOUCH=ends|all                   bytes written: the first and the last, or one "
    "in\n"
    "                                                every 4 KiB too; default ends\n"
    "  HAKMEM_BENCH_EPOCH_SEC                        after each so many seconds a line of CSV on\n"
    "                                                stdout, the report on stderr: epoch,\n"
    "                                                elapsed_s,throughput_ops_s,rss_kb\n"
    "  HAKMEM_BENCH_EPOCH_MS                         the same in milliseconds, 5 or more; it wins\n"
    "  HAKMEM_BENCH_DURATION_SEC                     ends after so many seconds, or after ITERS\n"
    "arguments:";

int main(int argc, char **argv) {
  static const struct bench_argument arguments[] = {
      {"ITERS", "iterations of each thread: a malloc or a free each", 1, BENCH_MAX_OPERATIONS, NULL,
       NULL},
      {"WS", "slots of each thread; about half of them hold a block", 1, MAX_SLOTS, NULL, NULL},
      {"SEED", "start of the random sequence", 0, UINT64_MAX, NULL, NULL},
      {"THREADS", "threads", 1, BENCH_MAX_THREADS, NULL, "1"},
  };
  uint64_t values[4];
  bench_arguments(argc, argv, idea, arguments, 4, values);
  struct settings settings = {
      .iterations = values[0],
      .slots = values[1],
      .min_size = number_of_environment("HAKMEM_BENCH_MIN_SIZE", 1, BENCH_MAX_SIZE, 16),
      .max_size = number_of_environment("HAKMEM_BENCH_MAX_SIZE", 1, BENCH_MAX_SIZE, 1024),
  };
  uint64_t seed = values[2];
  uint64_t threads = values[3];
  if (argc < 5)
    threads = number_of_environment("HAKMEM_BENCH_THREADS", 1, BENCH_MAX_THREADS, threads);
  if (number_of_environment("HAKMEM_BENCH_C7_ONLY", 0, 1, 0) == 1) {
    settings.min_size = 513;
    settings.max_size = 1024;
  }
  bench_ordered("HAKMEM_BENCH_MIN_SIZE", settings.min_size, "HAKMEM_BENCH_MAX_SIZE",
                settings.max_size);
  const char *touch = getenv("HAKMEM_BENCH_TOUCH");
  if (touch != NULL && touch[0] != 0)
    settings.touch_all = bench_word("HAKMEM_BENCH_TOUCH", touch, "ends|all") == 1;

  settings.threads = threads;
  settings.epoch_milliseconds =
      1000 * number_of_environment("HAKMEM_BENCH_EPOCH_SEC", 1, MAX_SECONDS, 0);
  settings.epoch_milliseconds =
      number_of_environment("HAKMEM_BENCH_EPOCH_MS", 5, MAX_SECONDS, settings.epoch_milliseconds);
  settings.seconds = number_of_environment("HAKMEM_BENCH_DURATION_SEC", 1, MAX_SECONDS, 0);

  size_t slots = threads * settings.slots;
  settings.table = bench_map(slots * sizeof(char *));
  if (settings.epoch_milliseconds != 0) bench_line("epoch,elapsed_s,throughput_ops_s,rss_kb\n");
  bool timed = settings.epoch_milliseconds != 0 || settings.seconds != 0;
  struct bench_result result =
      bench_run(threads, timed ? work_by_the_clock : work, &settings, seed);
  for (size_t i = 0; i < slots; i++) free(settings.table[i]);

  if (settings.epoch_milliseconds != 0) bench_report_apart();
  printf("iters=%" PRIu64 " ws=%" PRIu64 " seed=%" PRIu64 " threads=%" PRIu64 " sizes=%" PRIu64
         "..%" PRIu64 "%s\n",
         settings.iterations, settings.slots, seed, threads, settings.min_size, settings.max_size,
         settings.touch_all ? " touch=all" : "");
  bench_report(&result);
  return 0;
}
