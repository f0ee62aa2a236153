/* stall.c - how long a call of malloc or free takes at worst.
 *
 * Each thread mallocs and frees at random over SLOTS, sizes from MIN_SIZE to MAX_SIZE on a logarithmic
 * scale, so that every kind of block occurs. In each PERIOD_MS it does so for one half of the time over
 * all its slots; then it frees nine of ten blocks in one go and works on over a tenth of the slots, so
 * that an allocator has much to give back while the thread goes on. Each call is timed by itself; so
 * is the first write to each page of a new block, where memory that was given back is missed. A call
 * is an operation.
 *
 * What it shows: the longest waits. They hold what the system adds: a thread that loses its processor
 * in the middle of a call has waited too. So a figure means something beside that of the same run
 * without giving memory back, or on another allocator, and with processors to spare.
 */
#define _GNU_SOURCE
#include "harness.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#define TIMER "tsc"
#else
#define TIMER "clock_gettime"
#endif

#define LINE_BITS 5 /* 32 cells for each power of two: a percentile is known to 3% */
#define CELLS ((64 - LINE_BITS + 1) << LINE_BITS)
#define LONG_WAIT 100e-6 /* seconds; calls above are counted */

enum { MALLOC, FREE, TOUCH, KINDS };

struct histogram {
  uint64_t cells[CELLS];
  uint64_t longest; /* ticks */
};

struct settings {
  uint64_t threads, slots, min_size, max_size;
  double seconds, period;
  double tick;                  /* seconds */
  struct histogram *histograms; /* KINDS of each thread */
  char **table;                 /* slots of all threads */
};

/* --- the clock: an operation cannot begin before the first reading nor end after the second ------ */

#if defined(__x86_64__)
static inline uint64_t ticks_before(void) {
  _mm_lfence();
  uint64_t ticks = __rdtsc();
  _mm_lfence();
  return ticks;
}

static inline uint64_t ticks_after(void) {
  unsigned processor;
  uint64_t ticks = __rdtscp(&processor);
  _mm_lfence();
  return ticks;
}
#else
static inline uint64_t ticks_before(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static inline uint64_t ticks_after(void) { return ticks_before(); }
#endif

struct moment {
  double seconds;
  uint64_t ticks;
};

static struct moment now(void) {
  return (struct moment){bench_clock(CLOCK_MONOTONIC), ticks_before()};
}

static double tick_length(struct moment begin, struct moment end) {
  return (end.seconds - begin.seconds) / (double)(end.ticks - begin.ticks);
}

/* Good to a tenth of a percent, to know when a part of the run is over. */
static double guess_tick(void) {
  struct moment begin = now();
  nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
  return tick_length(begin, now());
}

/* --- histogram: linear below 2^LINE_BITS, then 2^LINE_BITS cells for each power of two ----------- */

static inline size_t cell_of(uint64_t ticks) {
  if (ticks >> LINE_BITS == 0) return ticks;
  unsigned shift = 63 - (unsigned)__builtin_clzll(ticks) - LINE_BITS;
  return ((size_t)shift << LINE_BITS) + (ticks >> shift);
}

/* The first number of ticks that is too long for the cell, in floating point as the last one has no
 * successor. */
static double end_of_cell(size_t cell) {
  if (cell >> LINE_BITS == 0) return (double)cell + 1;
  unsigned shift = (unsigned)(cell >> LINE_BITS) - 1;
  uint64_t first = cell - ((size_t)shift << LINE_BITS);
  return (double)(first + 1) * (double)(UINT64_C(1) << shift);
}

static inline void record(struct histogram *histogram, uint64_t before, uint64_t after) {
  /* Processors whose counters differ by a little must not give half an eternity. */
  uint64_t ticks = after > before ? after - before : 0;
  histogram->cells[cell_of(ticks)]++;
  if (ticks > histogram->longest) histogram->longest = ticks;
}

static void add(struct histogram *sum, const struct histogram *other) {
  for (size_t i = 0; i < CELLS; i++) sum->cells[i] += other->cells[i];
  if (other->longest > sum->longest) sum->longest = other->longest;
}

static uint64_t count_of(const struct histogram *histogram) {
  uint64_t count = 0;
  for (size_t i = 0; i < CELLS; i++) count += histogram->cells[i];
  return count;
}

/* Nanoseconds that `share` of the calls did not take longer than. */
static double percentile(const struct histogram *histogram, double share, double tick) {
  double wanted = share * (double)count_of(histogram);
  double longest = (double)histogram->longest * tick * 1e9;
  uint64_t count = 0;
  for (size_t i = 0; i < CELLS; i++) {
    count += histogram->cells[i];
    if ((double)count >= wanted && count != 0) {
      double end = end_of_cell(i) * tick * 1e9;
      return end < longest ? end : longest;
    }
  }
  return longest;
}

static uint64_t count_above(const struct histogram *histogram, double seconds, double tick) {
  uint64_t count = 0;
  for (size_t i = 0; i < CELLS; i++)
    if (end_of_cell(i) * tick > seconds) count += histogram->cells[i];
  return count;
}

/* --- what a thread does -------------------------------------------------------------------------- */

static inline uint64_t release(struct histogram *histograms, char **slot) {
  uint64_t before = ticks_before();
  free(*slot);
  uint64_t after = ticks_after();
  record(&histograms[FREE], before, after);
  *slot = NULL;
  return after;
}

/* The power of two first, then a size of it. */
static inline uint64_t draw_size(const struct settings *settings, uint64_t *random) {
  uint64_t draw = bench_draw(random);
  unsigned low = 63 - (unsigned)__builtin_clzll(settings->min_size);
  unsigned high = 63 - (unsigned)__builtin_clzll(settings->max_size);
  uint64_t base = UINT64_C(1) << (low + bench_below(bench_low(draw), high - low + 1));
  uint64_t size = base + bench_below(bench_high(draw), base);
  if (size < settings->min_size) return settings->min_size;
  return size < settings->max_size ? size : settings->max_size;
}

static inline uint64_t allocate(const struct settings *settings, struct histogram *histograms,
                                uint64_t *random, char **slot) {
  uint64_t size = draw_size(settings, random);
  uint64_t before = ticks_before();
  char *block = malloc(size);
  uint64_t after = ticks_after();
  record(&histograms[MALLOC], before, after);
  *slot = bench_check(block, size);
  before = ticks_before();
  bench_touch(block, size, 1);
  after = ticks_after();
  record(&histograms[TOUCH], before, after);
  return after;
}

static bool work(struct bench_worker *worker) {
  struct settings *settings = worker->shared;
  struct histogram *histograms = &settings->histograms[worker->index * KINDS];
  char **slots = settings->table + worker->index * settings->slots;
  uint64_t few = settings->slots / 10 != 0 ? settings->slots / 10 : 1;
  uint64_t begin = ticks_before();
  uint64_t end = begin + (uint64_t)(settings->seconds / settings->tick);
  uint64_t half = (uint64_t)(settings->period / 2 / settings->tick);
  uint64_t time = begin;
  for (uint64_t part = 0; time < end; part++) {
    uint64_t until = begin + (part + 1) * half;
    if (until > end) until = end;
    uint64_t count = part % 2 == 0 ? settings->slots : few;
    while (time < until) {
      char **slot = &slots[bench_below(bench_low(bench_draw(&worker->random)), count)];
      time = *slot != NULL ? release(histograms, slot)
                           : allocate(settings, histograms, &worker->random, slot);
      worker->operations++;
    }
    if (part % 2 != 0) continue;
    for (uint64_t i = 0; i < settings->slots; i++) {
      if (slots[i] == NULL || bench_below(bench_low(bench_draw(&worker->random)), 10) == 0)
        continue;
      time = release(histograms, &slots[i]);
      worker->operations++;
    }
  }
  return false;
}

/* --- report -------------------------------------------------------------------------------------- */

static void print(const char *name, const struct histogram *histogram, double tick) {
  printf("%s: calls=%" PRIu64
         " p50=%.0f p99=%.0f p99.9=%.0f p99.99=%.0f max=%.0f ns above_100us=%" PRIu64 "\n",
         name, count_of(histogram), percentile(histogram, 0.5, tick),
         percentile(histogram, 0.99, tick), percentile(histogram, 0.999, tick),
         percentile(histogram, 0.9999, tick), (double)histogram->longest * tick * 1e9,
         count_above(histogram, LONG_WAIT, tick));
}

/* What timing nothing takes: part of every figure. */
static void print_timer(struct histogram *histogram, double tick) {
  for (int i = 0; i < 100000; i++) {
    uint64_t before = ticks_before();
    record(histogram, before, ticks_after());
  }
  printf("timer: %s, nothing takes p50=%.0f ns\n", TIMER, percentile(histogram, 0.5, tick));
}

int main(int argc, char **argv) {
  static const struct bench_argument arguments[] = {
      BENCH_THREADS,
      {"SECONDS", "seconds of the run", 1, 86400, NULL, NULL},
      {"SLOTS", "slots of each thread; about half of them hold a block", 1, UINT64_C(1) << 30, NULL,
       "20000"},
      {"MIN_SIZE", "smallest block, bytes", 1, BENCH_MAX_SIZE, NULL, "16"},
      {"MAX_SIZE", "largest block, bytes", 1, BENCH_MAX_SIZE, NULL, "65536"},
      {"PERIOD_MS", "milliseconds from one large release to the next", 2, 3600000, NULL, "4000"},
      BENCH_SEED,
  };
  uint64_t values[7];
  bench_arguments(argc, argv, "How long a call of malloc or free takes at worst.", arguments, 7,
                  values);
  static struct settings settings;
  settings = (struct settings){
      .threads = values[0],
      .seconds = (double)values[1],
      .slots = values[2],
      .min_size = values[3],
      .max_size = values[4],
      .period = (double)values[5] * 1e-3,
  };
  bench_ordered("MIN_SIZE", settings.min_size, "MAX_SIZE", settings.max_size);
  size_t slots = settings.threads * settings.slots;
  settings.table = bench_map(slots * sizeof(char *));
  settings.histograms = bench_map((settings.threads + 1) * KINDS * sizeof(struct histogram));
  settings.tick = guess_tick();

  struct moment begin = now();
  struct bench_result result = bench_run(settings.threads, work, &settings, values[6]);
  double tick = tick_length(begin, now());
  for (size_t i = 0; i < slots; i++) free(settings.table[i]);

  struct histogram *sums = settings.histograms;
  for (uint64_t i = 1; i < settings.threads; i++)
    for (int kind = 0; kind < KINDS; kind++) add(&sums[kind], &sums[i * KINDS + (uint64_t)kind]);
  struct histogram *spare = &settings.histograms[settings.threads * KINDS];
  print("malloc", &sums[MALLOC], tick);
  print("free", &sums[FREE], tick);
  print("touch", &sums[TOUCH], tick);
  print_timer(&spare[0], tick);
  add(&spare[1], &sums[MALLOC]);
  add(&spare[1], &sums[FREE]);
  print("calls", &spare[1], tick);
  bench_report(&result);
  return 0;
}
