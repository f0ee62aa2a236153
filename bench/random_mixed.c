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
 */
#define _GNU_SOURCE
#include "harness.h"

#define MAX_SLOTS (UINT64_C(1) << 30)

struct settings {
  uint64_t iterations; /* of each thread */
  uint64_t slots;      /* of each thread */
  uint64_t min_size, max_size;
  bool touch_all;
  char **table; /* slots of all threads */
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

static bool work(struct bench_worker *worker) {
  const struct settings *settings = worker->shared;
  char **slots = settings->table + worker->index * settings->slots;
  uint64_t left = settings->touch_all ? churn_all(settings, slots, worker->random)
                                      : churn_ends(settings, slots, worker->random);
  worker->operations = settings->iterations - left;
  if (left != 0)
    bench_fail(BENCH_BAD_INPUT, "out of memory after %" PRIu64 " iterations", worker->operations);
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

  size_t slots = threads * settings.slots;
  settings.table = bench_map(slots * sizeof(char *));
  struct bench_result result = bench_run(threads, work, &settings, seed);
  for (size_t i = 0; i < slots; i++) free(settings.table[i]);

  printf("iters=%" PRIu64 " ws=%" PRIu64 " seed=%" PRIu64 " threads=%" PRIu64 " sizes=%" PRIu64
         "..%" PRIu64 "%s\n",
         settings.iterations, settings.slots, seed, threads, settings.min_size, settings.max_size,
         settings.touch_all ? " touch=all" : "");
  bench_report(&result);
  return 0;
}
