/* idle.c - a process that has gone quiet: what does it keep, and how does it start again?
 *
 * THREADS fill MIB with blocks, every byte written, and each frees FREE percent of its own at random.
 * Then no thread calls the allocator any more: resident memory is read every 250 ms for SECONDS, and
 * for another QUIET seconds nothing at all happens but what the allocator does by itself, whose
 * processor time and context switches are printed. Then the load comes back: the same fill, beside
 * the first one in steps of 100 ms. With LOAD_MS each load goes on for so long after its fill,
 * replacing blocks at random. An operation is a malloc or a free; idle times are not counted.
 *
 * What it shows: whether memory goes back without calls that could do it on their way, what that
 * costs while nothing happens, and what it costs later. At the end every live block is checked: all
 * that the program wrote has to be there still.
 *
 * Before each load another process uses as much memory for a moment (BACKED). A virtual machine may have
 * to get memory that it has not used for a while from its host, which takes ten times as long as a page
 * fault: a fill in such memory says nothing about the allocator, and less so beside one in other memory.
 *
 * The threads that allocate sleep meanwhile, and one more thread watches. It allocates nothing, and
 * the program's own tables are given back as they shrink.
 */
#define _GNU_SOURCE
#include "harness.h"

#include <sys/prctl.h>

#define SAMPLE 0.25    /* seconds between two looks at resident memory */
#define INTERVAL 0.1   /* seconds of a step of a load */
#define INTERVALS 20   /* steps that are kept */
#define BLOCKS_LOOK 64 /* blocks between two looks at the clock */

enum { FIRST, AGAIN, LOADS };

struct load {
  double filled, ended; /* seconds from the load's start */
  uint64_t fill_blocks;
  uint64_t blocks[INTERVALS]; /* allocated in each step */
};

struct table {
  _Alignas(128) char **slots;
  size_t mapped; /* bytes */
  uint64_t count, live;
  struct load loads[LOADS];
};

struct sample {
  double time;
  long resident;
};

struct settings {
  uint64_t threads, bytes, min_size, max_size, free_percent, seconds, quiet_seconds;
  double load_seconds;
  int ask, answer;      /* pipes to and from the process that uses memory; -1: there is none */
  struct table *tables; /* of each thread */
  pthread_barrier_t meeting;
  double begin; /* of the present load */

  long resident_start, resident[LOADS];
  uint64_t filled_live[LOADS], freed_live;
  struct sample *samples;
  uint64_t sample_count;
  double quiet_cpu, active;
  long quiet_voluntary, quiet_involuntary, threads_left;
};

/* --- blocks: their size in the first four bytes, the rest filled with one value ------------------ */

static void allocate(struct bench_worker *worker, const struct settings *settings,
                     struct table *table, char **slot) {
  uint64_t draw = bench_draw(&worker->random);
  uint64_t size = settings->min_size +
                  bench_below(bench_high(draw), settings->max_size - settings->min_size + 1);
  char *block = bench_malloc(size);
  memset(block, (char)draw, size);
  bench_stamp(block, (uint32_t)size);
  *slot = block;
  table->live += size;
  worker->operations++;
}

static void release(struct bench_worker *worker, struct table *table, char *block) {
  table->live -= bench_stamp_of(block);
  free(block);
  worker->operations++;
}

/* Reads a block back; its part of the checksum. */
static uint64_t check(const struct settings *settings, const char *block) {
  uint64_t size = bench_stamp_of(block);
  if (size < settings->min_size || size > settings->max_size ||
      memcmp(block + 4, block + 5, size - 5) != 0)
    bench_fail(BENCH_FAILED, "a live block has changed");
  return size + ((uint64_t)(unsigned char)block[size - 1] << 32);
}

/* --- what the threads do ------------------------------------------------------------------------- */

/* Adds the blocks allocated since the last look to the present step; seconds of the load so far. */
static double look(const struct settings *settings, struct load *load, uint64_t *blocks) {
  double now = bench_clock(CLOCK_MONOTONIC) - settings->begin;
  uint64_t interval = (uint64_t)(now / INTERVAL);
  if (interval < INTERVALS) load->blocks[interval] += *blocks;
  *blocks = 0;
  return now;
}

static void fill(struct bench_worker *worker, const struct settings *settings, struct table *table,
                 struct load *load) {
  uint64_t wanted = bench_share(settings->bytes, settings->threads, worker->index);
  uint64_t blocks = 0;
  while (table->live < wanted) {
    allocate(worker, settings, table, &table->slots[table->count++]);
    load->fill_blocks++;
    if (++blocks == BLOCKS_LOOK) look(settings, load, &blocks);
  }
  load->filled = look(settings, load, &blocks);
  load->ended = load->filled;
  while (load->ended < load->filled + settings->load_seconds && table->count != 0) {
    uint64_t draw = bench_draw(&worker->random);
    char **slot = &table->slots[bench_below(bench_low(draw), table->count)];
    release(worker, table, *slot);
    allocate(worker, settings, table, slot);
    if (++blocks == BLOCKS_LOOK) load->ended = look(settings, load, &blocks);
  }
}

static void shrink(struct bench_worker *worker, const struct settings *settings,
                   struct table *table) {
  uint64_t rest = table->count * (100 - settings->free_percent) / 100;
  while (table->count > rest) {
    uint64_t draw = bench_draw(&worker->random);
    char **slot = &table->slots[bench_below(bench_low(draw), table->count)];
    worker->checksum += check(settings, *slot);
    release(worker, table, *slot);
    *slot = table->slots[--table->count];
  }
  bench_unmap_rest(table->slots, table->count * sizeof(char *), table->mapped);
}

static void meet(struct settings *settings) { pthread_barrier_wait(&settings->meeting); }

static void serve(struct bench_worker *worker, struct settings *settings) {
  struct table *table = &settings->tables[worker->index];
  for (int i = 0; i < LOADS; i++) {
    meet(settings);
    meet(settings); /* a load begins */
    fill(worker, settings, table, &table->loads[i]);
    meet(settings);
    meet(settings); /* measured */
    if (i == AGAIN) break;
    shrink(worker, settings, table);
    meet(settings); /* and now it is quiet, until the next load */
  }
}

/* --- what the watching thread does --------------------------------------------------------------- */

static uint64_t live(const struct settings *settings) {
  uint64_t bytes = 0;
  for (uint64_t i = 0; i < settings->threads; i++) bytes += settings->tables[i].live;
  return bytes;
}

/* Begun before there are threads and blocks: a fork would protect them from being written. */
static void start_user(struct settings *settings) {
  int ask[2], answer[2];
  if (pipe2(ask, O_CLOEXEC) != 0 || pipe2(answer, O_CLOEXEC) != 0)
    bench_fail(BENCH_FAILED, "no pipe: %s", strerror(errno));
  pid_t pid = fork();
  if (pid < 0) bench_fail(BENCH_FAILED, "no process: %s", strerror(errno));
  settings->ask = ask[1];
  settings->answer = answer[0];
  close(pid == 0 ? ask[1] : ask[0]);
  close(pid == 0 ? answer[0] : answer[1]);
  if (pid != 0) return;
  size_t bytes = settings->bytes + settings->bytes / 4; /* what an allocator adds */
  for (char byte; read(ask[0], &byte, 1) == 1;) {
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory != MAP_FAILED) {
      madvise(memory, bytes, MADV_HUGEPAGE); /* as it may be asked for by an allocator */
      bench_touch(memory, bytes, 1);
      munmap(memory, bytes);
    }
    if (write(answer[1], &byte, 1) != 1) break;
  }
  _exit(0);
}

static void use_memory(const struct settings *settings) {
  char byte = 0;
  if (settings->ask < 0) return;
  if (write(settings->ask, &byte, 1) != 1 || read(settings->answer, &byte, 1) != 1)
    bench_fail(BENCH_FAILED, "the other process has ended");
}

static void watch_load(struct settings *settings, int which) {
  use_memory(settings);
  meet(settings); /* all are ready */
  settings->begin = bench_clock(CLOCK_MONOTONIC);
  meet(settings);
  meet(settings); /* all are filled */
  settings->active += bench_clock(CLOCK_MONOTONIC) - settings->begin;
  settings->resident[which] = bench_resident_now();
  settings->filled_live[which] = live(settings);
  meet(settings);
}

static void watch_silence(struct settings *settings) {
  double begin = bench_clock(CLOCK_MONOTONIC);
  for (uint64_t i = 0; i < settings->sample_count; i++) {
    bench_sleep_until(begin + (double)i * SAMPLE);
    settings->samples[i] =
        (struct sample){bench_clock(CLOCK_MONOTONIC) - begin, bench_resident_now()};
  }
}

/* What the process used less what this thread used of it. */
static void watch_quiet(struct settings *settings) {
  struct rusage all[2], own[2];
  double cpu[2];
  for (int i = 0; i < 2; i++) {
    getrusage(RUSAGE_SELF, &all[i]);
    getrusage(RUSAGE_THREAD, &own[i]);
    cpu[i] = bench_clock(CLOCK_PROCESS_CPUTIME_ID) - bench_clock(CLOCK_THREAD_CPUTIME_ID);
    if (i == 0) bench_sleep_until(bench_clock(CLOCK_MONOTONIC) + (double)settings->quiet_seconds);
  }
  settings->quiet_cpu = cpu[1] > cpu[0] ? cpu[1] - cpu[0] : 0; /* the two clocks differ a little */
  settings->quiet_voluntary =
      (all[1].ru_nvcsw - all[0].ru_nvcsw) - (own[1].ru_nvcsw - own[0].ru_nvcsw);
  settings->quiet_involuntary =
      (all[1].ru_nivcsw - all[0].ru_nivcsw) - (own[1].ru_nivcsw - own[0].ru_nivcsw);
}

static void watch(struct settings *settings) {
  /* Timers of this thread may be late by 50 us otherwise. */
  prctl(PR_SET_TIMERSLACK, 1000);
  settings->resident_start = bench_resident_now();
  watch_load(settings, FIRST);
  double begin = bench_clock(CLOCK_MONOTONIC);
  meet(settings); /* all have freed their share */
  settings->active += bench_clock(CLOCK_MONOTONIC) - begin;
  settings->freed_live = live(settings);
  watch_silence(settings);
  if (settings->quiet_seconds != 0) watch_quiet(settings);
  settings->threads_left = bench_resident("Threads");
  watch_load(settings, AGAIN);
}

static bool work(struct bench_worker *worker) {
  struct settings *settings = worker->shared;
  if (worker->index == settings->threads) watch(settings);
  else serve(worker, settings);
  return false;
}

/* --- report -------------------------------------------------------------------------------------- */

/* Seconds of a step in which the thread's load still went on. */
static double covered(const struct load *load, uint64_t interval) {
  double seconds = load->ended - (double)interval * INTERVAL;
  return seconds < 0 ? 0 : seconds < INTERVAL ? seconds : INTERVAL;
}

/* Blocks a second of all threads in the steps from `begin` up to `end`; 0: the load was over. */
static double rate(const struct settings *settings, int which, uint64_t begin, uint64_t end) {
  double sum = 0;
  for (uint64_t i = 0; i < settings->threads; i++) {
    const struct load *load = &settings->tables[i].loads[which];
    double seconds = 0;
    uint64_t blocks = 0;
    for (uint64_t k = begin; k < end; k++) {
      seconds += covered(load, k);
      blocks += load->blocks[k];
    }
    if (blocks != 0 && seconds > 0) sum += (double)blocks / seconds;
  }
  return sum;
}

/* Blocks a second of a fill, from its start until its last thread was done. */
static double print_fill(const struct settings *settings, int which) {
  uint64_t blocks = 0;
  double seconds = 1e-9;
  for (uint64_t i = 0; i < settings->threads; i++) {
    const struct load *load = &settings->tables[i].loads[which];
    blocks += load->fill_blocks;
    if (load->filled > seconds) seconds = load->filled;
  }
  double per_second = (double)blocks / seconds;
  printf("%s: blocks=%" PRIu64 " ms=%.1f blocks_per_s=%.0f live_kb=%" PRIu64 " resident_kb=%ld\n",
         which == FIRST ? "fill" : "refill", blocks, seconds * 1e3, per_second,
         settings->filled_live[which] / 1024, settings->resident[which]);
  return per_second;
}

static void print_silence(const struct settings *settings) {
  printf("freed %" PRIu64 "%%: live_kb=%" PRIu64 "\n", settings->free_percent,
         settings->freed_live / 1024);
  for (uint64_t i = 0; i < settings->sample_count; i++)
    printf("idle %.2f s: resident_kb=%ld\n", settings->samples[i].time,
           settings->samples[i].resident);
  for (long level = 1 << 20; level >= 1; level /= 2) {
    if (level * 1024 >= settings->resident[FIRST]) continue;
    uint64_t i = 0;
    while (i < settings->sample_count && settings->samples[i].resident > level * 1024) i++;
    if (i == settings->sample_count) break; /* nor any lower level */
    printf("at most %ld MiB: after %.2f s\n", level, settings->samples[i].time);
  }
  if (settings->quiet_seconds != 0)
    printf("quiet %" PRIu64 " s: cpu_ms=%.3f voluntary_switches=%ld involuntary_switches=%ld\n",
           settings->quiet_seconds, settings->quiet_cpu * 1e3, settings->quiet_voluntary,
           settings->quiet_involuntary);
  /* Those of the program are THREADS, the watching one and the main one. */
  printf("threads: program=%" PRIu64 " others=%ld\n", settings->threads + 2,
         settings->threads_left - (long)settings->threads - 2);
}

static void print_loads(const struct settings *settings) {
  for (uint64_t i = 0; i < INTERVALS; i++) {
    double first = rate(settings, FIRST, i, i + 1);
    double again = rate(settings, AGAIN, i, i + 1);
    if (first == 0 && again == 0) break;
    printf("step %" PRIu64 " ms: first=%.0f again=%.0f blocks_per_s\n", (i + 1) * 100, first,
           again);
  }
  printf("first second: again_to_first=%.3f\n",
         rate(settings, AGAIN, 0, 10) / rate(settings, FIRST, 0, 10));
}

static uint64_t free_rest(const struct settings *settings) {
  uint64_t checksum = 0;
  for (uint64_t i = 0; i < settings->threads; i++) {
    struct table *table = &settings->tables[i];
    for (uint64_t k = 0; k < table->count; k++) {
      checksum += check(settings, table->slots[k]);
      free(table->slots[k]);
    }
  }
  return checksum;
}

int main(int argc, char **argv) {
  static const struct bench_argument arguments[] = {
      {"THREADS", "threads that allocate", 1, BENCH_MAX_THREADS - 1, NULL, NULL},
      {"MIB", "MiB of blocks, all threads together", 1, 1 << 20, NULL, NULL},
      {"MIN_SIZE", "smallest block, bytes", BENCH_STAMPED, BENCH_MAX_SIZE, NULL, NULL},
      {"MAX_SIZE", "largest block, bytes", BENCH_STAMPED, BENCH_MAX_SIZE, NULL, NULL},
      {"FREE", "percent of the blocks that are freed", 0, 100, NULL, "95"},
      {"SECONDS", "seconds without a call, resident memory read", 0, 86400, NULL, "15"},
      {"QUIET", "seconds without a call after them, nothing done", 0, 86400, NULL, "0"},
      {"LOAD_MS", "milliseconds that blocks are replaced after each fill", 0, 3600000, NULL, "0"},
      {"BACKED", "another process uses as much memory before each load", 0, 0, "no|yes", "yes"},
      BENCH_SEED,
  };
  uint64_t values[10];
  bench_arguments(argc, argv, "A process that has gone quiet: what it keeps, how it starts again.",
                  arguments, 10, values);
  static struct settings settings;
  settings = (struct settings){
      .threads = values[0],
      .bytes = values[1] << 20,
      .min_size = values[2],
      .max_size = values[3],
      .free_percent = values[4],
      .seconds = values[5],
      .quiet_seconds = values[6],
      .load_seconds = (double)values[7] * 1e-3,
      .ask = -1,
      .sample_count = values[5] * (uint64_t)(1 / SAMPLE) + 1,
  };
  bench_ordered("MIN_SIZE", settings.min_size, "MAX_SIZE", settings.max_size);
  if (values[8] == 1) start_user(&settings);
  settings.tables = bench_map(settings.threads * sizeof(struct table));
  settings.samples = bench_map(settings.sample_count * sizeof(struct sample));
  for (uint64_t i = 0; i < settings.threads; i++) {
    struct table *table = &settings.tables[i];
    table->mapped = (settings.bytes / settings.threads / settings.min_size + 2) * sizeof(char *);
    table->slots = bench_map(table->mapped);
  }
  pthread_barrier_init(&settings.meeting, NULL, (unsigned)settings.threads + 1);

  struct bench_result result = bench_run_threads(settings.threads + 1, work, &settings, values[9]);

  result.seconds = settings.active;
  result.checksum += free_rest(&settings);
  /* How often blocks are replaced in LOAD_MS is not decided by the arguments. */
  if (settings.load_seconds > 0) result.checksum = 0;
  printf("start: resident_kb=%ld\n", settings.resident_start);
  double first = print_fill(&settings, FIRST);
  print_silence(&settings);
  double again = print_fill(&settings, AGAIN);
  printf("fill: again_to_first=%.3f\n", again / first);
  print_loads(&settings);
  bench_report(&result);
  return 0;
}
