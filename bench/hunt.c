/* hunt.c - one workload from parameters: what `hakmem-lab hunt` searches through.
 *
 * Each of THREADS threads has up to LIVE blocks of sizes that are drawn log-uniformly from SIZE-MIN to
 * SIZE-MAX (or one size a round). A round is OPERATIONS operations of each thread: a block is freed, which
 * one LIFETIME says, and another one allocated; with --burst all blocks are allocated and all freed, again
 * and again. A share of the blocks is freed by the next thread, grown or shrunk by realloc, or from calloc.
 * Between two rounds all threads sleep. In the end all is freed but --keep percent of the blocks, and
 * resident memory is read after --rest-ms more of sleep.
 *
 * A malloc, calloc, realloc or free is an operation. The time is that of the rounds and of the last
 * frees, without the sleep. What is allocated and freed, in which order in each thread, depends on the
 * arguments alone. Unless --touch none, each block's ends are written and looked at before it is freed; a
 * wrong byte ends the program.
 *
 * The line for the lab: "hunt: operations=N seconds=S rest_kb=K".
 */
#define _GNU_SOURCE
#include "harness.h"

#include <sched.h>
#include <stdatomic.h>

#define MOST_THREADS 64
#define STEPS 64       /* pieces of the range of sizes; sizes are evenly spread in each */
#define MOST_INBOX 256 /* blocks on their way to a thread */
#define LOOK_AFTER 64  /* operations until a thread looks at its inbox again */
#define MOST_ALIGNMENT (1 << 20)

enum sizes { MIXED, OF_ROUNDS };
enum lifetime { FIFO, LIFO, RANDOM };
enum touch { NONE, ENDS, ALL };
enum rest { ASLEEP, ENDED };

enum option {
  THREADS,
  SMALLEST,
  LARGEST,
  SIZES,
  ALIGNMENT,
  LIVE,
  LIFETIME,
  HANDOVER,
  REALLOC,
  CALLOC,
  BURST,
  IDLE_MS,
  TOUCH,
  ROUNDS,
  OPERATIONS,
  KEEP,
  REST,
  REST_MS,
  SEED,
  LIMIT_MB,
  OPTIONS
};

static const struct bench_argument options[OPTIONS] = {
    [THREADS] = {"--threads", "threads", 1, MOST_THREADS, NULL, "1"},
    [SMALLEST] = {"--size-min", "smallest block, bytes", 1, BENCH_MAX_SIZE, NULL, "16"},
    [LARGEST] = {"--size-max", "largest block, bytes", 1, BENCH_MAX_SIZE, NULL, "1024"},
    [SIZES] = {"--sizes", "sizes mixed, or one size in each round", 0, 0, "mixed|rounds", "mixed"},
    [ALIGNMENT] = {"--alignment", "0, or a power of 2 that blocks are aligned to", 0,
                   MOST_ALIGNMENT, NULL, "0"},
    [LIVE] = {"--live", "blocks of a thread", 1, 1 << 24, NULL, "1000"},
    [LIFETIME] = {"--lifetime", "which block is freed", 0, 0, "fifo|lifo|random", "random"},
    [HANDOVER] = {"--handover", "percent freed by the next thread", 0, 100, NULL, "0"},
    [REALLOC] = {"--realloc", "percent of operations that are a realloc", 0, 100, NULL, "0"},
    [CALLOC] = {"--calloc", "percent of blocks from calloc", 0, 100, NULL, "0"},
    [BURST] = {"--burst", "all blocks are allocated, then all freed", 0, 0, "no|yes", "no"},
    [IDLE_MS] = {"--idle-ms", "sleep between rounds, ms", 0, 10000, NULL, "0"},
    [TOUCH] = {"--touch", "what is written: nothing, both ends, a byte in each page too", 0, 0,
               "none|ends|all", "ends"},
    [ROUNDS] = {"--rounds", "rounds", 1, 10000, NULL, "1"},
    [OPERATIONS] = {"--operations", "operations of a thread in a round", 1, BENCH_MAX_OPERATIONS,
                    NULL, "100000"},
    [KEEP] = {"--keep", "percent of the last blocks that are not freed", 0, 100, NULL, "0"},
    [REST] = {"--rest", "the other threads at rest", 0, 0, "asleep|ended", "asleep"},
    [REST_MS] = {"--rest-ms", "sleep before resident memory is read, ms", 0, 60000, NULL, "1000"},
    [SEED] = {"--seed", "start of the random sequence", 0, UINT64_MAX, NULL, "1"},
    [LIMIT_MB] = {"--limit-mb", "refuse what needs more memory, MiB", 1, 1 << 20, NULL, "2048"},
};

static uint64_t values[OPTIONS];

struct slot {
  char *block;
  uint32_t size;
  uint32_t stamp; /* its low byte is written to the block */
};

/* Blocks that the thread before hands over: one thread puts them in, one takes them out. */
struct inbox {
  struct slot ring[MOST_INBOX];
  _Alignas(128) _Atomic(uint64_t) given;
  _Alignas(128) _Atomic(uint64_t) taken;
};

struct worker {
  _Alignas(128) pthread_t thread;
  struct slot *slots;
  uint64_t count; /* of the slots in use, the first ones */
  uint64_t next;  /* FIFO: the oldest slot */
  uint64_t goal;  /* LIFO: how many blocks there shall be */
  uint64_t random, operations, checksum;
  uint32_t single; /* the size of this round; 0: mixed */
  struct inbox *own, *others;
};

static struct worker workers[MOST_THREADS];
static pthread_barrier_t barrier;
static _Atomic(uint64_t) working;
static uint64_t inbox_size; /* a power of 2 */
static uint64_t points[STEPS + 1];
static double seconds;

/* --- sizes ------------------------------------------------------------------------------------- */

/* The points from SIZE-MIN to SIZE-MAX, each the same factor above the one before. */
static void make_points(void) {
  double low = 1, high = 2, wanted = (double)values[LARGEST] / (double)values[SMALLEST];
  for (int i = 0; i < 60; i++) {
    double middle = (low + high) / 2, power = middle;
    for (int k = STEPS; k > 1; k /= 2) power *= power;
    if (power > wanted) high = middle;
    else low = middle;
  }
  double size = (double)values[SMALLEST];
  for (int i = 0; i < STEPS; i++, size *= low) points[i] = (uint64_t)size;
  points[STEPS] = values[LARGEST];
}

static uint32_t draw_size(uint64_t *random) {
  uint64_t draw = bench_draw(random), step = bench_below(bench_low(draw), STEPS);
  return (uint32_t)(points[step] +
                    bench_below(bench_high(draw), points[step + 1] - points[step] + 1));
}

static double mean_size(void) {
  double sum = 0;
  for (int i = 0; i < STEPS; i++) sum += (double)(points[i] + points[i + 1]) / 2;
  return sum / STEPS;
}

/* --- a block's life ---------------------------------------------------------------------------- */

static bool chance(struct worker *worker, enum option option) {
  if (values[option] == 0) return false;
  return bench_below(bench_low(bench_draw(&worker->random)), 100) < values[option];
}

static void wrote_over(const struct slot *slot, const char *what) {
  bench_fail(BENCH_FAILED, "a wrong byte %s of a block of %" PRIu32 " bytes at %p", what,
             slot->size, (void *)slot->block);
}

static void write_block(const struct slot *slot) {
  if (values[TOUCH] == ALL) bench_touch(slot->block, slot->size, (char)slot->stamp);
  else if (values[TOUCH] == ENDS) slot->block[0] = slot->block[slot->size - 1] = (char)slot->stamp;
}

/* A block that has only grown since it was written has its last byte where it was before: `written`. */
static void check_block(const struct slot *slot, uint32_t written) {
  if (values[TOUCH] == NONE) return;
  if (slot->block[0] != (char)slot->stamp) wrote_over(slot, "at the start");
  if (written <= slot->size && slot->block[written - 1] != (char)slot->stamp)
    wrote_over(slot, "at the end");
}

static uint32_t next_size(struct worker *worker) {
  return worker->single != 0 ? worker->single : draw_size(&worker->random);
}

static void take(struct worker *worker, struct slot *slot) {
  size_t alignment = values[ALIGNMENT];
  slot->size = next_size(worker);
  slot->stamp = bench_high(worker->random);
  if (chance(worker, CALLOC)) {
    slot->block = bench_check(calloc(1, slot->size), slot->size);
    if (values[TOUCH] != NONE && (slot->block[0] != 0 || slot->block[slot->size - 1] != 0))
      wrote_over(slot, "not zero");
  } else if (alignment != 0) {
    void *block = NULL;
    if (posix_memalign(&block, alignment, slot->size) != 0) block = NULL;
    slot->block = bench_check(block, slot->size);
    if ((uintptr_t)block % alignment != 0)
      bench_fail(BENCH_FAILED, "a block at %p is not aligned to %zu", block, alignment);
  } else {
    slot->block = bench_malloc(slot->size);
  }
  write_block(slot);
  worker->operations++;
}

static void resize(struct worker *worker, struct slot *slot) {
  uint32_t before = slot->size, size = next_size(worker);
  check_block(slot, before);
  slot->block = bench_check(realloc(slot->block, size), size);
  slot->size = size;
  check_block(slot, before);
  write_block(slot);
  worker->operations++;
}

static void free_block(struct worker *worker, const struct slot *slot) {
  check_block(slot, slot->size);
  worker->checksum += slot->stamp + slot->size;
  free(slot->block);
  worker->operations++;
}

/* --- hand-over --------------------------------------------------------------------------------- */

static void empty_inbox(struct worker *worker) {
  struct inbox *inbox = worker->own;
  uint64_t taken = atomic_load_explicit(&inbox->taken, memory_order_relaxed);
  uint64_t given = atomic_load_explicit(&inbox->given, memory_order_acquire);
  while (taken != given) {
    free_block(worker, &inbox->ring[taken++ % inbox_size]);
    atomic_store_explicit(&inbox->taken, taken, memory_order_release);
  }
}

static void hand_over(struct worker *worker, const struct slot *slot) {
  struct inbox *inbox = worker->others;
  uint64_t given = atomic_load_explicit(&inbox->given, memory_order_relaxed);
  while (given - atomic_load_explicit(&inbox->taken, memory_order_acquire) == inbox_size) {
    empty_inbox(worker); /* or all might wait for each other */
    sched_yield();
  }
  inbox->ring[given % inbox_size] = *slot;
  atomic_store_explicit(&inbox->given, given + 1, memory_order_release);
}

static void drop(struct worker *worker, const struct slot *slot) {
  if (chance(worker, HANDOVER)) hand_over(worker, slot);
  else free_block(worker, slot);
}

/* When it returns, no thread hands over any more and the inbox is empty. */
static void finish_hand_over(struct worker *worker) {
  if (values[HANDOVER] == 0) return;
  atomic_fetch_sub(&working, 1);
  while (atomic_load(&working) != 0) {
    empty_inbox(worker);
    sched_yield();
  }
  empty_inbox(worker);
}

/* --- rounds ------------------------------------------------------------------------------------ */

static void fill(struct worker *worker) {
  while (worker->count < values[LIVE]) {
    struct slot *slot = &worker->slots[worker->count++];
    take(worker, slot);
    if (values[BURST] && chance(worker, REALLOC)) resize(worker, slot);
  }
}

/* Frees all but the first `kept` blocks. */
static void drop_rest(struct worker *worker, uint64_t kept) {
  struct slot *slots = worker->slots;
  if (values[LIFETIME] == FIFO) {
    for (uint64_t i = kept; i < worker->count; i++) {
      drop(worker, &slots[i]);
      if (i % LOOK_AFTER == 0) empty_inbox(worker);
    }
    worker->count = kept;
  }
  while (worker->count > kept) {
    uint64_t last = --worker->count, chosen = last;
    if (values[LIFETIME] == RANDOM)
      chosen = kept + bench_below(bench_low(bench_draw(&worker->random)), last - kept + 1);
    drop(worker, &slots[chosen]);
    slots[chosen] = slots[last];
    if (last % LOOK_AFTER == 0) empty_inbox(worker);
  }
}

/* LIFO: the blocks are a stack whose height goes from one random number to the next. */
static void step_of_stack(struct worker *worker) {
  if (worker->count == worker->goal)
    worker->goal = bench_below(bench_low(bench_draw(&worker->random)), values[LIVE] + 1);
  struct slot *top = &worker->slots[worker->count];
  if (worker->count != 0 && chance(worker, REALLOC)) {
    resize(worker, top - 1);
  } else if (worker->count < worker->goal) {
    take(worker, top);
    worker->count++;
  } else if (worker->count > worker->goal) {
    drop(worker, top - 1);
    worker->count--;
  }
}

static void step(struct worker *worker) {
  if (values[LIFETIME] == LIFO) {
    step_of_stack(worker);
    return;
  }
  uint64_t at = worker->next;
  if (values[LIFETIME] == RANDOM)
    at = bench_below(bench_low(bench_draw(&worker->random)), values[LIVE]);
  else worker->next = at + 1 < values[LIVE] ? at + 1 : 0;
  struct slot *slot = &worker->slots[at];
  if (chance(worker, REALLOC)) {
    resize(worker, slot);
  } else {
    drop(worker, slot);
    take(worker, slot);
  }
}

static void work(struct worker *worker) {
  if (values[BURST]) {
    for (uint64_t done = 0; done < values[OPERATIONS]; done += 2 * values[LIVE]) {
      fill(worker);
      drop_rest(worker, 0);
    }
    return;
  }
  if (values[LIFETIME] != LIFO) fill(worker);
  for (uint64_t done = 0; done < values[OPERATIONS]; done += 2) {
    step(worker);
    if (done % LOOK_AFTER == 0) empty_inbox(worker);
  }
}

/* The last frees: what stays is a random choice of all blocks. */
static void clear(struct worker *worker) {
  uint64_t kept = 0;
  if (values[BURST] && values[KEEP] != 0) fill(worker);
  for (uint64_t i = 0; i < worker->count; i++) {
    if (!chance(worker, KEEP)) continue;
    struct slot slot = worker->slots[kept];
    worker->slots[kept++] = worker->slots[i];
    worker->slots[i] = slot;
  }
  drop_rest(worker, kept);
}

/* --- threads ----------------------------------------------------------------------------------- */

/* Does `part` on all threads at once; the first of them keeps the time. */
static void together(struct worker *worker, void (*part)(struct worker *)) {
  bool first = worker == workers;
  if (first) atomic_store(&working, values[THREADS]);
  pthread_barrier_wait(&barrier);
  double begin = first ? bench_clock(CLOCK_MONOTONIC) : 0;
  part(worker);
  finish_hand_over(worker);
  pthread_barrier_wait(&barrier);
  if (first) seconds += bench_clock(CLOCK_MONOTONIC) - begin;
}

static void sleep_ms(uint64_t milliseconds) {
  if (milliseconds != 0)
    bench_sleep_until(bench_clock(CLOCK_MONOTONIC) + (double)milliseconds * 1e-3);
}

static void *run(void *argument) {
  struct worker *worker = argument;
  uint64_t random = bench_spread(values[SEED] + UINT64_C(0x5175)); /* the same in all threads */
  for (uint64_t round = 0; round < values[ROUNDS]; round++) {
    if (round != 0) sleep_ms(values[IDLE_MS]);
    if (values[SIZES] == OF_ROUNDS) worker->single = draw_size(&random);
    together(worker, work);
  }
  together(worker, clear);
  /* The table is not to count as memory that the allocator keeps. */
  bench_unmap_rest(worker->slots, worker->count * sizeof(struct slot),
                   values[LIVE] * sizeof(struct slot));
  if (worker == workers) return NULL;
  if (values[REST] == ASLEEP) pthread_barrier_wait(&barrier);
  return NULL;
}

/* --- arguments --------------------------------------------------------------------------------- */

static void set_option(const char *name, const char *text) {
  for (int i = 0; i < OPTIONS; i++) {
    const struct bench_argument *option = &options[i];
    if (strcmp(name, option->name) != 0) continue;
    if (text == NULL) bench_fail(BENCH_BAD_INPUT, "%s: its value is missing", name);
    values[i] = option->words != NULL ? bench_word(name, text, option->words)
                                      : bench_number(name, text, option->low, option->high);
    return;
  }
  bench_fail(BENCH_BAD_INPUT, "unknown: '%s'; --help names the options", name);
}

static void read_arguments(int argc, char **argv) {
  bench_program = "hunt";
  bench_answer_version(argc, argv);
  if (bench_asks_for_help(argc, argv)) {
    puts("usage: hunt [--OPTION VALUE]...\nOne workload from parameters: time, memory at rest.");
    for (int i = 0; i < OPTIONS; i++) bench_describe(stdout, &options[i], 12);
    exit(0);
  }
  for (int i = 0; i < OPTIONS; i++) set_option(options[i].name, options[i].otherwise);
  for (int i = 1; i < argc; i += 2) set_option(argv[i], argv[i + 1]);
  bench_ordered("--size-min", values[SMALLEST], "--size-max", values[LARGEST]);
  uint64_t alignment = values[ALIGNMENT];
  if ((alignment & (alignment - 1)) != 0 || (alignment != 0 && alignment < sizeof(void *)))
    bench_fail(BENCH_BAD_INPUT, "--alignment: not 0 and no power of 2 from %zu: %" PRIu64,
               sizeof(void *), alignment);
  if (values[HANDOVER] != 0 && values[THREADS] == 1)
    bench_fail(BENCH_BAD_INPUT, "--handover: there is no other thread with --threads 1");
}

/* Refuses what would need too much memory. Of mixed sizes the sum is that of their mean and four
 * standard deviations, which are below half the largest size for one block. */
static void check_limit(void) {
  double threads = (double)values[THREADS], largest = (double)values[LARGEST];
  double blocks = threads * (double)(values[LIVE] + (values[HANDOVER] != 0 ? inbox_size : 0));
  double padding = (double)(values[ALIGNMENT] + 16 + sizeof(struct slot));
  double most = blocks * largest, spread = 2 * largest, likely = blocks * mean_size();
  for (uint64_t left = (uint64_t)blocks; left > 0; left /= 4)
    spread *= 2; /* at least the square root */
  if (values[SIZES] == MIXED && likely + spread < most) most = likely + spread;
  double needed = (most + blocks * padding) / (1 << 20);
  if (needed > (double)values[LIMIT_MB])
    bench_fail(BENCH_BAD_INPUT, "needs up to %.0f MiB; --limit-mb allows %" PRIu64, needed,
               values[LIMIT_MB]);
}

int main(int argc, char **argv) {
  read_arguments(argc, argv);
  for (inbox_size = 1; inbox_size < MOST_INBOX && inbox_size < values[LIVE];) inbox_size *= 2;
  make_points();
  check_limit();
  uint64_t threads = values[THREADS];
  struct inbox *inboxes = bench_map(threads * sizeof *inboxes);
  pthread_barrier_init(&barrier, NULL, (unsigned)threads);
  for (uint64_t i = 0; i < threads; i++)
    workers[i] = (struct worker){
        .slots = bench_map(values[LIVE] * sizeof(struct slot)),
        .random = bench_spread(values[SEED] + i * UINT64_C(0x100000001)),
        .own = &inboxes[i],
        .others = &inboxes[(i + 1) % threads],
    };
  for (uint64_t i = 1; i < threads; i++) {
    int error = pthread_create(&workers[i].thread, NULL, run, &workers[i]);
    if (error != 0) bench_fail(BENCH_FAILED, "cannot start a thread: %s", strerror(error));
  }
  run(&workers[0]); /* a single thread is the main thread: allocators make use of that */
  if (values[REST] == ENDED)
    for (uint64_t i = 1; i < threads; i++) pthread_join(workers[i].thread, NULL);
  sleep_ms(values[REST_MS]);
  long resident = bench_resident_now();
  if (values[REST] == ASLEEP) {
    pthread_barrier_wait(&barrier);
    for (uint64_t i = 1; i < threads; i++) pthread_join(workers[i].thread, NULL);
  }

  struct bench_result result = {.seconds = seconds, .cpu = bench_clock(CLOCK_PROCESS_CPUTIME_ID)};
  for (uint64_t i = 0; i < threads; i++) {
    struct worker *worker = &workers[i];
    for (uint64_t k = 0; k < worker->count; k++) free_block(worker, &worker->slots[k]);
    result.operations += worker->operations;
    result.checksum += worker->checksum;
  }
  printf("hunt: operations=%" PRIu64 " seconds=%.6f rest_kb=%ld\n", result.operations, seconds,
         resident);
  bench_report(&result);
  return 0;
}
