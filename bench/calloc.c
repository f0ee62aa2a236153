/* calloc.c - zeroed blocks from small to large, replaced at random.
 *
 * Sizes are drawn evenly over the powers of two between MIN_SIZE and MAX_SIZE, so that each order of
 * magnitude has its share. A block is checked for zeros and written: at its ends, and a byte in each
 * page. So memory that is used again has to be cleared, and what comes fresh from the system need
 * not be. A calloc (with the free it replaces) is an operation.
 *
 * What it shows: whether an allocator knows which memory is zero already.
 */
#define _GNU_SOURCE
#include "harness.h"

struct settings {
  uint64_t threads, operations, slots, min_size, max_size;
  uint64_t doublings; /* from MIN_SIZE to MAX_SIZE, the last one not complete perhaps */
  char **table;       /* slots of all threads */
};

static inline uint64_t draw_size(const struct settings *settings, uint64_t *state) {
  uint64_t draw = bench_draw(state);
  uint64_t base = settings->min_size << bench_below(bench_low(draw), settings->doublings);
  uint64_t size = base + bench_below(bench_high(draw), base);
  return size < settings->max_size ? size : settings->max_size;
}

static void check_zero(const char *block, size_t size) {
  bool zero = bench_stamp_of(block) == 0 && block[size - 1] == 0;
  for (size_t i = BENCH_PAGE; i < size; i += BENCH_PAGE) zero &= block[i] == 0;
  if (!zero) bench_fail(BENCH_FAILED, "calloc gave a block of %zu bytes that are not zero", size);
}

static bool work(struct bench_worker *worker) {
  const struct settings *settings = worker->shared;
  char **slots = settings->table + worker->index * settings->slots;
  worker->operations = bench_share(settings->operations, settings->threads, worker->index);
  for (uint64_t i = 0; i < worker->operations; i++) {
    uint64_t draw = bench_draw(&worker->random);
    char **slot = &slots[bench_below(bench_low(draw), settings->slots)];
    if (*slot != NULL) worker->checksum += bench_stamp_of(*slot);
    free(*slot);
    uint64_t size = draw_size(settings, &worker->random);
    char *block = bench_check(calloc(size, 1), size);
    /* The compiler knows calloc, and could leave the check out. */
    __asm__ volatile("" : : "r"(block) : "memory");
    check_zero(block, size);
    bench_touch(block, size, (char)(draw | 1));
    bench_stamp(block, bench_high(draw) | 1);
    *slot = block;
  }
  return false;
}

int main(int argc, char **argv) {
  static const struct bench_argument arguments[] = {
      BENCH_THREADS,
      {"OPERATIONS", "blocks of all threads", 1, BENCH_MAX_OPERATIONS, NULL, NULL},
      {"SLOTS", "blocks of each thread that are in use", 1, UINT64_C(1) << 24, NULL, NULL},
      {"MIN_SIZE", "smallest block, bytes", BENCH_STAMPED, BENCH_MAX_SIZE, NULL, NULL},
      {"MAX_SIZE", "largest block, bytes", BENCH_STAMPED, BENCH_MAX_SIZE, NULL, NULL},
      BENCH_SEED,
  };
  uint64_t values[6];
  bench_arguments(argc, argv, "Zeroed blocks from small to large, replaced at random.", arguments,
                  6, values);
  struct settings settings = {
      .threads = values[0],
      .operations = values[1],
      .slots = values[2],
      .min_size = values[3],
      .max_size = values[4],
      .doublings = 1,
  };
  bench_ordered("MIN_SIZE", settings.min_size, "MAX_SIZE", settings.max_size);
  while (settings.min_size << settings.doublings < settings.max_size) settings.doublings++;
  uint64_t slots = settings.threads * settings.slots;
  settings.table = bench_map(slots * sizeof(char *));

  struct bench_result result = bench_run(settings.threads, work, &settings, values[5]);

  for (uint64_t i = 0; i < slots; i++) free(settings.table[i]);
  bench_report(&result);
  return 0;
}
