/* fragmentation.c - memory that is nearly free, but not quite, and then wanted for another size.
 *
 * Each phase allocates MIB of blocks and then frees FREE percent of all that are live, at random.
 * Phases take turns between two ranges of sizes. So each phase finds memory in which one block in
 * ten is still used, and of the wrong size. Resident memory is printed after each step; with
 * IDLE_MS the program then makes no call for so long, and what is resident after that is printed
 * too. An operation is a malloc or a free; the idle time is not counted.
 *
 * The idle process of four threads that once held 512 MiB is
 *   fragmentation 4 512 16 4096 16 4096 95 1 5000
 *
 * What it shows: how much of a freed half-empty heap serves another size, and what goes back to the
 * system, at once or while the process is idle. The program's own table, 8 bytes for a block, is
 * resident too.
 */
#define _GNU_SOURCE
#include "harness.h"

#define MAX_PHASES 64

struct range {
  uint64_t min_size, max_size;
};

struct table {
  _Alignas(128) char **slots;
  uint64_t count;
};

struct settings {
  uint64_t threads, bytes, free_percent, phases, idle_ms;
  struct range ranges[2];
  struct table *tables; /* of each thread */
  pthread_barrier_t turn;
  long filled[MAX_PHASES], freed[MAX_PHASES], idle; /* resident KiB after the steps */
  double idle_seconds;
};

/* All threads end the step; the first one then looks how much is resident. */
static void end_step(struct bench_worker *worker, struct settings *settings, long *resident) {
  if (settings->threads > 1) pthread_barrier_wait(&settings->turn);
  if (worker->index == 0) *resident = bench_resident("VmRSS");
  if (settings->threads > 1) pthread_barrier_wait(&settings->turn);
}

static void allocate(struct bench_worker *worker, const struct settings *settings,
                     struct table *table, const struct range *range) {
  uint64_t bytes = 0;
  uint64_t wanted = bench_share(settings->bytes, settings->threads, worker->index);
  while (bytes < wanted) {
    uint64_t draw = bench_draw(&worker->random);
    uint64_t size =
        range->min_size + bench_below(bench_high(draw), range->max_size - range->min_size + 1);
    char *block = bench_malloc(size);
    bench_touch(block, size, (char)draw);
    bench_stamp(block, bench_low(draw));
    table->slots[table->count++] = block;
    bytes += size;
    worker->operations++;
  }
}

static void release(struct bench_worker *worker, const struct settings *settings,
                    struct table *table) {
  uint64_t rest = table->count * (100 - settings->free_percent) / 100;
  for (; table->count > rest; worker->operations++) {
    uint64_t draw = bench_draw(&worker->random);
    char **slot = &table->slots[bench_below(bench_low(draw), table->count)];
    worker->checksum += bench_stamp_of(*slot);
    free(*slot);
    *slot = table->slots[--table->count];
  }
}

static bool work(struct bench_worker *worker) {
  struct settings *settings = worker->shared;
  struct table *table = &settings->tables[worker->index];
  for (uint64_t phase = 0; phase < settings->phases; phase++) {
    allocate(worker, settings, table, &settings->ranges[phase % 2]);
    end_step(worker, settings, &settings->filled[phase]);
    release(worker, settings, table);
    end_step(worker, settings, &settings->freed[phase]);
  }
  if (settings->idle_ms != 0) {
    if (worker->index == 0) {
      double begin = bench_clock(CLOCK_MONOTONIC);
      struct timespec time = {.tv_sec = (time_t)(settings->idle_ms / 1000),
                              .tv_nsec = (long)(settings->idle_ms % 1000 * 1000000)};
      nanosleep(&time, NULL);
      settings->idle_seconds = bench_clock(CLOCK_MONOTONIC) - begin;
    }
    end_step(worker, settings, &settings->idle);
  }
  return false;
}

static void map_tables(struct settings *settings) {
  uint64_t smallest = settings->ranges[0].min_size < settings->ranges[1].min_size
                          ? settings->ranges[0].min_size
                          : settings->ranges[1].min_size;
  /* What a phase allocates at most, for each phase: pages that are not needed cost nothing. */
  uint64_t most = (settings->bytes / settings->threads / smallest + 2) * settings->phases;
  settings->tables = bench_map(settings->threads * sizeof(struct table));
  for (uint64_t i = 0; i < settings->threads; i++)
    settings->tables[i].slots = bench_map(most * sizeof(char *));
}

int main(int argc, char **argv) {
  static const struct bench_argument arguments[] = {
      BENCH_THREADS,
      {"MIB", "MiB that a phase allocates, all threads together", 1, 1 << 20, NULL, NULL},
      {"MIN_A", "smallest block of the first range, bytes", BENCH_STAMPED, BENCH_MAX_SIZE, NULL,
       NULL},
      {"MAX_A", "largest block of the first range, bytes", BENCH_STAMPED, BENCH_MAX_SIZE, NULL,
       NULL},
      {"MIN_B", "smallest block of the second range, bytes", BENCH_STAMPED, BENCH_MAX_SIZE, NULL,
       NULL},
      {"MAX_B", "largest block of the second range, bytes", BENCH_STAMPED, BENCH_MAX_SIZE, NULL,
       NULL},
      {"FREE", "percent of the live blocks that are freed", 0, 100, NULL, "90"},
      {"PHASES", "phases", 1, MAX_PHASES, NULL, "4"},
      {"IDLE_MS", "milliseconds without a call after the last phase", 0, 3600000, NULL, "0"},
      BENCH_SEED,
  };
  uint64_t values[10];
  bench_arguments(argc, argv, "Memory that is nearly free, and then wanted for another size.",
                  arguments, 10, values);
  static struct settings settings;
  settings = (struct settings){
      .threads = values[0],
      .bytes = values[1] << 20,
      .ranges = {{values[2], values[3]}, {values[4], values[5]}},
      .free_percent = values[6],
      .phases = values[7],
      .idle_ms = values[8],
  };
  bench_ordered("MIN_A", values[2], "MAX_A", values[3]);
  bench_ordered("MIN_B", values[4], "MAX_B", values[5]);
  map_tables(&settings);
  pthread_barrier_init(&settings.turn, NULL, (unsigned)settings.threads);

  struct bench_result result = bench_run(settings.threads, work, &settings, values[9]);

  result.seconds -= settings.idle_seconds;
  for (uint64_t i = 0; i < settings.threads; i++)
    result.checksum += bench_free_stamped(settings.tables[i].slots, settings.tables[i].count);
  for (uint64_t i = 0; i < settings.phases; i++) {
    const struct range *range = &settings.ranges[i % 2];
    printf("phase %" PRIu64 ", sizes %" PRIu64 "..%" PRIu64
           ": filled resident_kb=%ld freed resident_kb=%ld\n",
           i + 1, range->min_size, range->max_size, settings.filled[i], settings.freed[i]);
  }
  if (settings.idle_ms != 0)
    printf("idle %" PRIu64 " ms: resident_kb=%ld\n", settings.idle_ms, settings.idle);
  bench_report(&result);
  return 0;
}
