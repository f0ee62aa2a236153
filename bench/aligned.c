/* aligned.c - aligned_alloc with alignments from a vector's to a page's, replaced at random.
 *
 * An alignment is drawn evenly from the powers of two between MIN_ALIGN and MAX_ALIGN (32 for
 * vectors, 64 for cache lines, 4096 for direct input and output), a size up to MAX_SIZE, rounded up
 * to a multiple of the alignment as C11 wants it. The address is checked. An aligned_alloc (with
 * the free it replaces) is an operation.
 *
 * What it shows: whether alignment has a path of its own, or costs a larger block that is searched
 * for an aligned place.
 */
#define _GNU_SOURCE
#include "harness.h"

struct settings {
  uint64_t threads, operations, slots, min_align, alignments, max_size;
  char **table; /* slots of all threads */
};

static bool work(struct bench_worker *worker) {
  const struct settings *settings = worker->shared;
  char **slots = settings->table + worker->index * settings->slots;
  uint64_t misaligned = 0;
  worker->operations = bench_share(settings->operations, settings->threads, worker->index);
  for (uint64_t i = 0; i < worker->operations; i++) {
    uint64_t draw = bench_draw(&worker->random);
    uint64_t align = settings->min_align << (draw >> 8) % settings->alignments;
    uint64_t size = 1 + bench_below(bench_high(draw), settings->max_size);
    size = (size + align - 1) & -align;
    char **slot = &slots[bench_below(bench_low(draw), settings->slots)];
    if (*slot != NULL) worker->checksum += bench_stamp_of(*slot);
    free(*slot);
    char *block = bench_check(aligned_alloc(align, size), size);
    misaligned |= (uintptr_t)block & (align - 1);
    bench_touch(block, size, (char)draw);
    bench_stamp(block, bench_high(draw) | 1);
    *slot = block;
  }
  if (misaligned != 0) bench_fail(BENCH_FAILED, "aligned_alloc gave a block that is not aligned");
  return false;
}

int main(int argc, char **argv) {
  static const struct bench_argument arguments[] = {
      BENCH_THREADS,
      {"OPERATIONS", "blocks of all threads", 1, BENCH_MAX_OPERATIONS, NULL, NULL},
      {"SLOTS", "blocks of each thread that are in use", 1, UINT64_C(1) << 24, NULL, NULL},
      {"MIN_ALIGN", "smallest alignment, bytes, a power of 2", 8, 1 << 20, NULL, "32"},
      {"MAX_ALIGN", "largest alignment, bytes, a power of 2", 8, 1 << 20, NULL, "4096"},
      {"MAX_SIZE", "largest size before it is rounded up, bytes", 1, BENCH_MAX_SIZE, NULL, "2048"},
      BENCH_SEED,
  };
  uint64_t values[7];
  bench_arguments(argc, argv, "Blocks with alignments from a vector's to a page's.", arguments, 7,
                  values);
  struct settings settings = {
      .threads = values[0],
      .operations = values[1],
      .slots = values[2],
      .min_align = values[3],
      .alignments = 1,
      .max_size = values[5],
  };
  for (int i = 3; i <= 4; i++)
    if ((values[i] & (values[i] - 1)) != 0)
      bench_fail(BENCH_BAD_INPUT, "%s: not a power of 2: %" PRIu64, arguments[i].name, values[i]);
  bench_ordered("MIN_ALIGN", values[3], "MAX_ALIGN", values[4]);
  while (settings.min_align << (settings.alignments - 1) < values[4]) settings.alignments++;
  uint64_t slots = settings.threads * settings.slots;
  settings.table = bench_map(slots * sizeof(char *));

  struct bench_result result = bench_run(settings.threads, work, &settings, values[6]);

  for (uint64_t i = 0; i < slots; i++) free(settings.table[i]);
  bench_report(&result);
  return 0;
}
