/* huge.c - a heap of 10^8 small blocks, or of terabytes: what does it cost to have it?
 *
 * First part: BLOCKS small blocks. The heap grows to 10^5, 10^6 ... and BLOCKS of them; at each of these sizes blocks
 * drawn by chance are replaced, and beside it only written (`plain_ns`: what misses of caches and of the TLB take
 * without an allocator). At its largest the process forks twice, as a server does that writes a snapshot: in the first the
 * parent writes to blocks, in the second it replaces as many; the child reads all of them, and in the second replaces some.
 * Page faults are counted, which are pages copied. Then half of the blocks are freed by chance, everything is given back,
 * while another thread allocates and frees, and its longest call is measured.
 *
 * Second part: GIB of large blocks, of each of which one page is touched. Half of them are freed by chance, memory is given
 * back, the places are filled with other sizes, and all is freed. The most mappings that the kernel counted on the way
 * are what shows: it allows vm.max_map_count of them (65,530), and refuses everything beyond.
 *
 * Each step prints a line of JSON, at once. The program's own tables are shared memory, which a fork does not copy and which
 * `anon_kb` leaves out. An operation is a malloc or a free.
 */
#define _GNU_SOURCE
#include "harness.h"

#include <dlfcn.h>
#include <malloc.h>
#include <stdatomic.h>
#include <sys/wait.h>

#define PAIRS 1000000       /* blocks replaced at each size */
#define FORK_PAIRS 100000   /* after a fork */
#define LARGE_PAIRS 20000   /* of large blocks */
#define MAPPING_LOOKS 32    /* at the list of mappings while blocks are freed */
#define WATCHED_BYTES 8192  /* blocks of the thread that watches */
#define WATCHED_BLOCKS 256  /* more than its cache holds */
#define WATCH_BEFORE_MS 300 /* as long it watches without anybody giving back */

struct settings {
  uint64_t blocks, min_size, max_size, large_bytes, large_min, large_max, limit_kb, rest_ms;
};

struct state {
  const struct settings *settings;
  struct bench_worker *worker;
  char **slots;
  uint64_t count; /* slots in use */
  uint64_t live;  /* bytes asked for */
  long most_mappings;
  enum { GOES_ON, REFUSED, OVER_LIMIT } ended; /* malloc has returned NULL; so much is resident */
};

/* --- what is measured ---------------------------------------------------------------------------- */

static long mappings(void) {
  static char text[1 << 16];
  long lines = 0;
  int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  for (ssize_t length; file >= 0 && (length = read(file, text, sizeof text)) > 0;)
    for (ssize_t i = 0; i < length; i++) lines += text[i] == '\n';
  if (file >= 0) close(file);
  return lines;
}

static long look_at_mappings(struct state *state) {
  long now = mappings();
  if (now > state->most_mappings) state->most_mappings = now;
  return now;
}

static long faults(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

static double now(void) { return bench_clock(CLOCK_MONOTONIC); }
static double cpu(void) { return bench_clock(CLOCK_THREAD_CPUTIME_ID); }

/* What the allocator says of itself; -1: it says nothing. The struct is hak_stats, of which a preloaded library knows. */
static long metadata_kb(void) {
  struct {
    uint32_t size, version;
    uint64_t figures[16];
  } stats = {.size = sizeof stats};
  enum { BYTES_METADATA = 16 };
  _Static_assert(sizeof stats == 8 + 8 * BYTES_METADATA, "its last figure");
  int (*get)(void *) = NULL;
  *(void **)&get = dlsym(RTLD_DEFAULT, "hak_stats_get");
  if (get == NULL || get(&stats) != 0) return -1;
  return (long)(stats.figures[BYTES_METADATA - 1] / 1024);
}

/** Gives everything back that can be, in the allocator's own way; its name. */
static const char *give_back(void) {
  void (*collect)(bool) = NULL;
  int (*control)(const char *, void *, size_t *, void *, size_t) = NULL;
  *(void **)&collect = dlsym(RTLD_DEFAULT, "mi_collect");
  *(void **)&control = dlsym(RTLD_DEFAULT, "mallctl");
  if (collect != NULL) return collect(true), "mi_collect";
  if (control != NULL && control("arena.4096.purge", NULL, NULL, NULL, 0) == 0)
    return "mallctl purge";
  malloc_trim(0);
  return "malloc_trim";
}

static void print_memory(struct state *state, const char *step) {
  bench_line(
      "{\"step\": \"%s\", \"blocks\": %" PRIu64 ", \"live_kb\": %" PRIu64
      ", \"anon_kb\": %ld, \"page_tables_kb\": %ld, \"metadata_kb\": %ld, \"mappings\": %ld}\n",
      step, state->count, state->live / 1024, bench_resident("RssAnon"), bench_resident("VmPTE"),
      metadata_kb(), look_at_mappings(state));
}

/* --- blocks: their size in the first four bytes -------------------------------------------------- */

static uint64_t draw_size(uint64_t *random, uint64_t least, uint64_t most) {
  return least + (bench_draw(random) >> 11) % (most - least + 1);
}

static void allocate(struct state *state, char **slot, uint64_t size) {
  char *block = malloc(size);
  state->worker->operations++;
  *slot = block;
  if (block == NULL) {
    state->ended = REFUSED;
    return;
  }
  ((uint64_t *)(void *)block)[0] = size;
  state->live += size;
}

static void release(struct state *state, char **slot) {
  if (*slot == NULL) return;
  uint64_t size = ((uint64_t *)(void *)*slot)[0];
  state->worker->checksum += size;
  state->live -= size;
  free(*slot);
  *slot = NULL;
  state->worker->operations++;
}

static char **any_slot(struct state *state) {
  uint64_t count = state->count > 0 ? state->count : 1;
  return &state->slots[(bench_draw(&state->worker->random) >> 11) % count];
}

static void replace(struct state *state, uint64_t pairs, uint64_t least, uint64_t most) {
  for (uint64_t i = 0; i < pairs; i++) {
    char **slot = any_slot(state);
    release(state, slot);
    allocate(state, slot, draw_size(&state->worker->random, least, most));
  }
}

/* The same places without the allocator. The size is read and written as it was. */
static void write_only(struct state *state, uint64_t pairs) {
  for (uint64_t i = 0; i < pairs; i++) {
    volatile uint64_t *size = (uint64_t *)(void *)*any_slot(state);
    (void)bench_draw(&state->worker->random);
    *size = *size;
  }
}

static void free_half(struct state *state) {
  uint64_t each = state->count / MAPPING_LOOKS + 1, bits = 0;
  for (uint64_t i = 0; i < state->count; i++) {
    if (i % 32 == 0) bits = bench_draw(&state->worker->random) >> 16;
    if ((bits >> i % 32 & 1) != 0) release(state, &state->slots[i]);
    if (i % each == 0) look_at_mappings(state);
  }
}

static void free_all(struct state *state) {
  uint64_t each = state->count / MAPPING_LOOKS + 1;
  for (uint64_t i = 0; i < state->count; i++) {
    release(state, &state->slots[i]);
    if (i % each == 0) look_at_mappings(state);
  }
}

/* --- giving back, watched ------------------------------------------------------------------------ */

struct watch {
  pthread_t thread;
  atomic_int stop;
  double longest; /* seconds of a call */
  uint64_t calls;
  long waits; /* times that the thread slept, which it does for locks alone */
};

static void *watch_calls(void *argument) {
  struct watch *watch = argument;
  static void *blocks[WATCHED_BLOCKS];
  for (uint64_t i = 0; atomic_load(&watch->stop) == 0; i++) {
    void **block = &blocks[i % WATCHED_BLOCKS];
    double begin = now();
    if (i / WATCHED_BLOCKS % 2 == 0) *block = malloc(WATCHED_BYTES);
    else free(*block);
    double seconds = now() - begin;
    if (seconds > watch->longest) watch->longest = seconds;
    watch->calls++;
  }
  struct rusage usage;
  getrusage(RUSAGE_THREAD, &usage);
  watch->waits = usage.ru_nvcsw;
  return NULL;
}

static void print_watch(const char *when, const struct watch *watch) {
  bench_line("{\"step\": \"calls %s\", \"calls\": %" PRIu64
             ", \"longest_ms\": %.2f, \"waits\": %ld}\n",
             when, watch->calls, watch->longest * 1e3, watch->waits);
}

static void watch_begin(struct watch *watch) {
  *watch = (struct watch){0};
  int error = pthread_create(&watch->thread, NULL, watch_calls, watch);
  if (error != 0) bench_fail(BENCH_FAILED, "cannot start a thread: %s", strerror(error));
}

static void watch_end(struct watch *watch) {
  atomic_store(&watch->stop, 1);
  pthread_join(watch->thread, NULL);
}

static void give_back_watched(struct state *state) {
  struct watch before, meanwhile;
  watch_begin(&before);
  bench_sleep_until(now() + WATCH_BEFORE_MS * 1e-3);
  watch_end(&before);
  watch_begin(&meanwhile);
  double begin = now(), begin_cpu = cpu();
  const char *how = give_back();
  double seconds = now() - begin, used = cpu() - begin_cpu;
  watch_end(&meanwhile);
  bench_line("{\"step\": \"trim\", \"how\": \"%s\", \"ms\": %.1f, \"cpu_ms\": %.1f, "
             "\"mappings\": %ld}\n",
             how, seconds * 1e3, used * 1e3, look_at_mappings(state));
  print_watch("before", &before);
  print_watch("meanwhile", &meanwhile);
  bench_sleep_until(now() + (double)state->settings->rest_ms * 1e-3);
}

/* --- fork ---------------------------------------------------------------------------------------- */

struct child_figures {
  long read_faults, replace_faults;
  uint64_t sum;
};

static void be_child(struct state *state, bool replaces, struct child_figures *figures, int ask) {
  /* The table first: what is shared is not copied, and has to be faulted in. */
  for (uint64_t i = 0; i < state->count; i++) figures->sum += (uintptr_t)state->slots[i];
  long begin = faults();
  for (uint64_t i = 0; i < state->count; i++)
    figures->sum += ((uint64_t *)(void *)state->slots[i])[0];
  figures->read_faults = faults() - begin;
  begin = faults();
  /* The table is shared with the parent, the blocks are not: the child frees what it allocates. */
  for (uint64_t i = 0; replaces && i < FORK_PAIRS; i++) {
    uint64_t size =
        draw_size(&state->worker->random, state->settings->min_size, state->settings->max_size);
    uint64_t *block = malloc(size);
    if (block == NULL) break;
    block[0] = size;
    free(block);
  }
  figures->replace_faults = faults() - begin;
  char byte;
  while (read(ask, &byte, 1) < 0 && errno == EINTR) continue;
  _exit(0);
}

static void fork_once(struct state *state, bool replaces) {
  int ends[2];
  struct child_figures *figures =
      mmap(NULL, sizeof *figures, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (figures == MAP_FAILED || pipe2(ends, O_CLOEXEC) != 0)
    bench_fail(BENCH_FAILED, "no pipe: %s", strerror(errno));
  double begin = now();
  pid_t child = fork();
  double seconds = now() - begin;
  if (child < 0) {
    /* Where memory may not be promised twice (vm.overcommit_memory), a heap that is large enough cannot fork. */
    bench_line("{\"step\": \"fork\", \"parent\": \"refused\", \"ms\": null}\n");
    close(ends[0]);
    close(ends[1]);
    munmap(figures, sizeof *figures);
    return;
  }
  if (child == 0) {
    close(ends[1]);
    be_child(state, replaces, figures, ends[0]);
  }
  long before = faults();
  if (replaces) replace(state, FORK_PAIRS, state->settings->min_size, state->settings->max_size);
  else write_only(state, FORK_PAIRS);
  long after = faults();
  close(ends[0]);
  close(ends[1]);
  int status;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  bench_line("{\"step\": \"fork\", \"parent\": \"%s\", \"ms\": %.2f, \"parent_faults\": %ld, "
             "\"child_read_faults\": %ld, \"child_replace_faults\": %ld}\n",
             replaces ? "replaces" : "writes", seconds * 1e3, after - before, figures->read_faults,
             figures->replace_faults);
  munmap(figures, sizeof *figures);
}

/* --- the two parts ------------------------------------------------------------------------------- */

static void *shared_table(size_t bytes) {
  void *table =
      mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (table == MAP_FAILED) bench_fail(BENCH_FAILED, "no memory for a table: %s", strerror(errno));
  return table;
}

static bool is_over(const struct state *state) {
  return (uint64_t)bench_resident_now() > state->settings->limit_kb;
}

/* To `count` blocks, or as far as memory goes. */
static void grow(struct state *state, uint64_t count) {
  const struct settings *settings = state->settings;
  while (state->count < count && state->ended == GOES_ON) {
    if (state->count % 65536 == 0 && is_over(state)) {
      state->ended = OVER_LIMIT;
      break;
    }
    allocate(state, &state->slots[state->count++],
             draw_size(&state->worker->random, settings->min_size, settings->max_size));
  }
}

static double ns_each(double seconds, uint64_t count) {
  return seconds * 1e9 / (double)(count != 0 ? count : 1);
}

static void grow_to(struct state *state, uint64_t count) {
  const struct settings *settings = state->settings;
  uint64_t had = state->count;
  double begin = cpu();
  grow(state, count);
  double grown = cpu();
  write_only(state, PAIRS);
  double written = cpu();
  replace(state, PAIRS, settings->min_size, settings->max_size);
  double replaced = cpu();
  bench_line("{\"step\": \"churn\", \"blocks\": %" PRIu64
             ", \"grow_ns\": %.1f, \"plain_ns\": %.1f, \"pair_ns\": %.1f}\n",
             state->count, ns_each(grown - begin, state->count - had),
             ns_each(written - grown, PAIRS), ns_each(replaced - written, PAIRS));
  print_memory(state, "grown");
}

static void small_part(struct bench_worker *worker, const struct settings *settings) {
  struct state state = {.settings = settings, .worker = worker};
  state.slots = shared_table(settings->blocks * sizeof(char *));
  for (uint64_t size = 100000; size < settings->blocks && state.ended == GOES_ON; size *= 10)
    grow_to(&state, size);
  if (state.ended == GOES_ON) grow_to(&state, settings->blocks);
  if (state.ended == GOES_ON) {
    fork_once(&state, false);
    fork_once(&state, true);
  }
  free_half(&state);
  print_memory(&state, "half freed");
  give_back_watched(&state);
  print_memory(&state, "given back");
  free_all(&state);
  give_back();
  print_memory(&state, "all freed");
  bench_line("{\"step\": \"small\", \"ended\": %d, \"most_mappings\": %ld}\n", (int)state.ended,
             state.most_mappings);
  munmap(state.slots, settings->blocks * sizeof(char *));
}

/* Up to `bytes` of large blocks; into empty slots first. */
static void fill_large(struct state *state, uint64_t most, uint64_t *next) {
  const struct settings *settings = state->settings;
  for (uint64_t i = 0; state->live < settings->large_bytes && i < most; i++) {
    char **slot = &state->slots[(*next)++];
    if (*slot == NULL)
      allocate(state, slot,
               draw_size(&state->worker->random, settings->large_min, settings->large_max));
    if (*next > state->count) state->count = *next;
    if (i % 1024 == 0 && is_over(state)) state->ended = OVER_LIMIT;
    if (i % (most / 64 + 1) == 0) look_at_mappings(state);
    if (state->ended != GOES_ON) break;
  }
}

static void large_part(struct bench_worker *worker, const struct settings *settings) {
  struct state state = {.settings = settings, .worker = worker};
  uint64_t most = settings->large_bytes / settings->large_min + 1, next = 0;
  state.slots = shared_table(most * sizeof(char *));
  double begin = cpu();
  fill_large(&state, most, &next);
  double filled = cpu();
  replace(&state, LARGE_PAIRS, settings->large_min, settings->large_max);
  double replaced = cpu();
  bench_line("{\"step\": \"large churn\", \"blocks\": %" PRIu64
             ", \"grow_ns\": %.1f, \"pair_ns\": %.1f}\n",
             state.count, ns_each(filled - begin, state.count),
             ns_each(replaced - filled, LARGE_PAIRS));
  print_memory(&state, "large filled");
  if (state.ended == GOES_ON) fork_once(&state, false);
  double half = cpu();
  free_half(&state);
  bench_line("{\"step\": \"large free\", \"ns\": %.1f}\n", ns_each(cpu() - half, state.count / 2));
  print_memory(&state, "large half freed");
  give_back_watched(&state);
  print_memory(&state, "large given back");
  next = 0;
  if (state.ended == GOES_ON) fill_large(&state, state.count, &next);
  print_memory(&state, "large refilled");
  free_all(&state);
  give_back();
  print_memory(&state, "large all freed");
  bench_line("{\"step\": \"large\", \"ended\": %d, \"most_mappings\": %ld}\n", (int)state.ended,
             state.most_mappings);
  munmap(state.slots, most * sizeof(char *));
}

static bool work(struct bench_worker *worker) {
  const struct settings *settings = worker->shared;
  if (settings->blocks != 0) small_part(worker, settings);
  if (settings->large_bytes != 0) large_part(worker, settings);
  return false;
}

int main(int argc, char **argv) {
  static const struct bench_argument arguments[] = {
      {"BLOCKS", "live small blocks at the end, 0: none", 0, 1000000000, NULL, NULL},
      {"GIB", "GiB of large blocks, 0: none", 0, 1 << 16, NULL, NULL},
      {"MIN_SIZE", "smallest small block, bytes", BENCH_STAMPED, BENCH_MAX_SIZE, NULL, "16"},
      {"MAX_SIZE", "largest small block, bytes", BENCH_STAMPED, BENCH_MAX_SIZE, NULL, "128"},
      {"MIN_KIB", "smallest large block, KiB", 1, BENCH_MAX_SIZE, NULL, "64"},
      {"MAX_KIB", "largest large block, KiB", 1, BENCH_MAX_SIZE, NULL, "4096"},
      {"LIMIT_MIB", "MiB resident at which it allocates no more", 1, 1 << 24, NULL, "16384"},
      {"REST_MS", "milliseconds of rest after giving back", 0, 3600000, NULL, "2000"},
      BENCH_SEED,
  };
  uint64_t values[9];
  bench_arguments(argc, argv, "A heap of many blocks, or of many GiB: what it costs to have it.",
                  arguments, 9, values);
  bench_ordered("MIN_SIZE", values[2], "MAX_SIZE", values[3]);
  bench_ordered("MIN_KIB", values[4], "MAX_KIB", values[5]);
  static struct settings settings;
  settings = (struct settings){
      .blocks = values[0],
      .large_bytes = values[1] << 30,
      .min_size = values[2],
      .max_size = values[3],
      .large_min = values[4] << 10,
      .large_max = values[5] << 10,
      .limit_kb = values[6] << 10,
      .rest_ms = values[7],
  };
  struct bench_result result = bench_run(1, work, &settings, values[8]);
  bench_report(&result);
  return 0;
}
