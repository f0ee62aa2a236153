/* mir.c - the arenas of a compiler's middle: 256 KiB buffers, replaced pass by pass.
 *
 * A pass over a function reads the function's arenas and writes new ones, up to ARENAS of them and
 * filled to a random extent, then frees the old. After sixteen passes the function is done: the first
 * of its arenas stays as a summary of it, in place of the oldest of sixteen such. Each thread compiles
 * its own functions. An arena is an operation.
 *
 * What it shows: reuse of Large blocks that die together and are wanted again at once. An allocator
 * that gives each back to the system pays a page fault for every page, every time.
 */
#define _GNU_SOURCE
#include "harness.h"

#define MAX_ARENAS 64
#define PASSES 16    /* over one function */
#define SUMMARIES 16 /* of a thread */

struct settings {
  uint64_t threads, operations, size, arenas;
};

static bool work(struct bench_worker *worker) {
  const struct settings *settings = worker->shared;
  char *summaries[SUMMARIES] = {NULL};
  char *arenas[MAX_ARENAS];
  uint64_t count = 0;
  uint64_t all = bench_share(settings->operations, settings->threads, worker->index);
  for (uint64_t pass = 0; worker->operations < all; pass++) {
    uint64_t draw = bench_draw(&worker->random);
    uint64_t wanted = 1 + bench_below(bench_low(draw), settings->arenas);
    char *made[MAX_ARENAS];
    for (uint64_t i = 0; i < wanted; i++) {
      /* The last one is filled in part only. */
      uint64_t filled = settings->size;
      if (i + 1 == wanted) filled = 4 + bench_below(bench_high(draw), settings->size - 3);
      made[i] = bench_malloc(settings->size);
      bench_touch(made[i], filled, (char)pass);
      bench_stamp(made[i], bench_low(draw));
      worker->operations++;
    }
    bool done = pass % PASSES == 0;
    for (uint64_t i = done ? 1 : 0; i < count; i++) {
      worker->checksum += bench_stamp_of(arenas[i]);
      free(arenas[i]);
    }
    if (done && count != 0) {
      char **summary = &summaries[pass / PASSES % SUMMARIES];
      if (*summary != NULL) worker->checksum += bench_stamp_of(*summary);
      free(*summary);
      *summary = arenas[0];
    }
    memcpy(arenas, made, wanted * sizeof made[0]);
    count = wanted;
  }
  for (uint64_t i = 0; i < count; i++) free(arenas[i]);
  for (int i = 0; i < SUMMARIES; i++) free(summaries[i]);
  return false;
}

int main(int argc, char **argv) {
  static const struct bench_argument arguments[] = {
      BENCH_THREADS,
      {"OPERATIONS", "arenas of all threads", 1, BENCH_MAX_OPERATIONS, NULL, NULL},
      {"SIZE", "bytes of an arena", BENCH_STAMPED, BENCH_MAX_SIZE, NULL, "262144"},
      {"ARENAS", "most arenas of a pass", 1, MAX_ARENAS, NULL, "4"},
      BENCH_SEED,
  };
  uint64_t values[5];
  bench_arguments(argc, argv, "The arenas of a compiler's middle, replaced pass by pass.",
                  arguments, 5, values);
  struct settings settings = {
      .threads = values[0], .operations = values[1], .size = values[2], .arenas = values[3]};
  struct bench_result result = bench_run(settings.threads, work, &settings, values[4]);
  bench_report(&result);
  return 0;
}
