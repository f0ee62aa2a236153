/* phases.c - a heap that grows and shrinks for ever: does what stays resident follow what is live?
 *
 * A cycle has five phases: `grow` allocates sizes of the first range until MIB are live, `shrink`
 * frees at random until KEEP percent of that are left, `change` fills up again with sizes of the
 * second range, `drop` shrinks again, `idle` makes no call for IDLE_MS. A line of CSV says after each
 * phase what is live and what is resident, and their ratio. What is left of a cycle stays for the
 * next one. An operation is a malloc or a free; the idle time is not counted.
 *
 * What it shows: fragmentation that adds up over time. An allocator may keep more than it needs, but
 * the same phase of each cycle should find the same.
 *
 * The program's table counts as resident, 8 bytes for a live block; it is given back as it shrinks.
 */
#define _GNU_SOURCE
#include "harness.h"

struct range {
  uint64_t min_size, max_size;
};

struct table {
  _Alignas(128) char **slots;
  size_t mapped; /* bytes */
  uint64_t count, live;
};

struct settings {
  uint64_t threads, bytes, keep_percent, cycles, idle_ms;
  struct range ranges[2];
  struct table *tables; /* of each thread */
  pthread_barrier_t turn;
  double idle_seconds;
};

/* All threads end the phase; the first one then writes the line. */
static void end_phase(struct bench_worker *worker, struct settings *settings, uint64_t cycle,
                      const char *phase) {
  if (settings->threads > 1) pthread_barrier_wait(&settings->turn);
  if (worker->index == 0) {
    uint64_t live = 0;
    for (uint64_t i = 0; i < settings->threads; i++) live += settings->tables[i].live;
    live = live < 1024 ? 1 : live / 1024;
    long resident = bench_resident_now();
    uint64_t ratio = (uint64_t)resident * 1000 / live;
    uint64_t ms = (uint64_t)((bench_clock(CLOCK_MONOTONIC) - worker->begin) * 1e3);
    bench_line("%" PRIu64 ",%s,%" PRIu64 ".%03" PRIu64 ",%" PRIu64 ",%ld,%" PRIu64 ".%03" PRIu64
               "\n",
               cycle, phase, ms / 1000, ms % 1000, live, resident, ratio / 1000, ratio % 1000);
  }
  if (settings->threads > 1) pthread_barrier_wait(&settings->turn);
}

static void grow(struct bench_worker *worker, const struct settings *settings, struct table *table,
                 const struct range *range) {
  uint64_t wanted = bench_share(settings->bytes, settings->threads, worker->index);
  while (table->live < wanted) {
    uint64_t draw = bench_draw(&worker->random);
    uint64_t size =
        range->min_size + bench_below(bench_high(draw), range->max_size - range->min_size + 1);
    char *block = bench_malloc(size);
    bench_touch(block, size, (char)draw);
    bench_stamp(block, (uint32_t)size);
    table->slots[table->count++] = block;
    table->live += size;
    worker->operations++;
  }
}

static void shrink(struct bench_worker *worker, const struct settings *settings,
                   struct table *table) {
  uint64_t wanted =
      bench_share(settings->bytes, settings->threads, worker->index) * settings->keep_percent / 100;
  while (table->live > wanted) {
    uint64_t draw = bench_draw(&worker->random);
    char **slot = &table->slots[bench_below(bench_low(draw), table->count)];
    uint32_t size = bench_stamp_of(*slot);
    worker->checksum += size;
    table->live -= size;
    free(*slot);
    *slot = table->slots[--table->count];
    worker->operations++;
  }
  bench_unmap_rest(table->slots, table->count * sizeof(char *), table->mapped);
}

static void idle(struct bench_worker *worker, struct settings *settings) {
  if (worker->index != 0) return; /* the others wait for the first one's line */
  double begin = bench_clock(CLOCK_MONOTONIC);
  struct timespec time = {.tv_sec = (time_t)(settings->idle_ms / 1000),
                          .tv_nsec = (long)(settings->idle_ms % 1000 * 1000000)};
  nanosleep(&time, NULL);
  settings->idle_seconds += bench_clock(CLOCK_MONOTONIC) - begin;
}

static bool work(struct bench_worker *worker) {
  struct settings *settings = worker->shared;
  struct table *table = &settings->tables[worker->index];
  for (uint64_t cycle = 1; cycle <= settings->cycles; cycle++) {
    grow(worker, settings, table, &settings->ranges[0]);
    end_phase(worker, settings, cycle, "grow");
    shrink(worker, settings, table);
    end_phase(worker, settings, cycle, "shrink");
    grow(worker, settings, table, &settings->ranges[1]);
    end_phase(worker, settings, cycle, "change");
    shrink(worker, settings, table);
    end_phase(worker, settings, cycle, "drop");
    idle(worker, settings);
    end_phase(worker, settings, cycle, "idle");
  }
  return false;
}

int main(int argc, char **argv) {
  static const struct bench_argument arguments[] = {
      BENCH_THREADS,
      {"MIB", "MiB that are live at most, all threads together", 1, 1 << 20, NULL, NULL},
      {"CYCLES", "how often the phases are repeated", 1, 1000000, NULL, NULL},
      {"MIN_A", "smallest block of the first range, bytes", BENCH_STAMPED, BENCH_MAX_SIZE, NULL,
       "16"},
      {"MAX_A", "largest block of the first range, bytes", BENCH_STAMPED, BENCH_MAX_SIZE, NULL,
       "512"},
      {"MIN_B", "smallest block of the second range, bytes", BENCH_STAMPED, BENCH_MAX_SIZE, NULL,
       "512"},
      {"MAX_B", "largest block of the second range, bytes", BENCH_STAMPED, BENCH_MAX_SIZE, NULL,
       "8192"},
      {"KEEP", "percent of MIB that stay live when it shrinks", 0, 100, NULL, "10"},
      {"IDLE_MS", "milliseconds without a call at the end of a cycle", 0, 3600000, NULL, "2000"},
      BENCH_SEED,
  };
  uint64_t values[10];
  bench_arguments(argc, argv, "A heap that grows and shrinks. CSV on stdout, the report on stderr.",
                  arguments, 10, values);
  static struct settings settings;
  settings = (struct settings){
      .threads = values[0],
      .bytes = values[1] << 20,
      .cycles = values[2],
      .ranges = {{values[3], values[4]}, {values[5], values[6]}},
      .keep_percent = values[7],
      .idle_ms = values[8],
  };
  bench_ordered("MIN_A", values[3], "MAX_A", values[4]);
  bench_ordered("MIN_B", values[5], "MAX_B", values[6]);
  uint64_t smallest = values[3] < values[5] ? values[3] : values[5];
  settings.tables = bench_map(settings.threads * sizeof(struct table));
  for (uint64_t i = 0; i < settings.threads; i++) {
    struct table *table = &settings.tables[i];
    table->mapped = (settings.bytes / settings.threads / smallest + 2) * sizeof(char *);
    table->slots = bench_map(table->mapped);
  }
  pthread_barrier_init(&settings.turn, NULL, (unsigned)settings.threads);

  bench_line("cycle,phase,elapsed_s,live_kb,rss_kb,ratio\n");
  struct bench_result result = bench_run(settings.threads, work, &settings, values[9]);

  bench_report_apart();
  result.seconds -= settings.idle_seconds;
  for (uint64_t i = 0; i < settings.threads; i++)
    result.checksum += bench_free_stamped(settings.tables[i].slots, settings.tables[i].count);
  bench_report(&result);
  return 0;
}
