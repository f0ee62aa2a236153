/* vm.c - the heap of a language's virtual machine: 2 MiB segments and a copying collector.
 *
 * A thread fills segment after segment, every page of each. When SEGMENTS are full it collects: a
 * quarter as many new segments take the survivors, then all old ones are freed. A segment is an
 * operation.
 *
 * What it shows: Huge blocks that come and go by the dozen. Sizes are those of a huge page, so that
 * rounding up by a header costs a page or a whole unit.
 */
#define _GNU_SOURCE
#include "harness.h"

#define MAX_SEGMENTS 1024

struct settings {
  uint64_t threads, operations, size, segments;
};

static char *make_segment(struct bench_worker *worker, uint64_t size) {
  uint64_t draw = bench_draw(&worker->random);
  char *segment = bench_malloc(size);
  bench_touch(segment, size, (char)draw);
  bench_stamp(segment, bench_low(draw));
  worker->operations++;
  return segment;
}

static bool work(struct bench_worker *worker) {
  const struct settings *settings = worker->shared;
  char *segments[MAX_SEGMENTS];
  char *survivors[MAX_SEGMENTS];
  uint64_t count = 0;
  uint64_t all = bench_share(settings->operations, settings->threads, worker->index);
  while (worker->operations < all) {
    segments[count++] = make_segment(worker, settings->size);
    if (count < settings->segments) continue;
    uint64_t surviving = count / 4;
    for (uint64_t i = 0; i < surviving; i++) survivors[i] = make_segment(worker, settings->size);
    for (uint64_t i = 0; i < count; i++) {
      worker->checksum += bench_stamp_of(segments[i]);
      free(segments[i]);
    }
    memcpy(segments, survivors, surviving * sizeof segments[0]);
    count = surviving;
  }
  for (uint64_t i = 0; i < count; i++) free(segments[i]);
  return false;
}

int main(int argc, char **argv) {
  static const struct bench_argument arguments[] = {
      BENCH_THREADS,
      {"OPERATIONS", "segments of all threads", 1, BENCH_MAX_OPERATIONS, NULL, NULL},
      {"SIZE", "bytes of a segment", BENCH_STAMPED, BENCH_MAX_SIZE, NULL, "2097152"},
      {"SEGMENTS", "segments of a thread that start a collection", 2, MAX_SEGMENTS, NULL, "8"},
      BENCH_SEED,
  };
  uint64_t values[5];
  bench_arguments(argc, argv, "The heap of a virtual machine with a copying collector.", arguments,
                  5, values);
  struct settings settings = {
      .threads = values[0], .operations = values[1], .size = values[2], .segments = values[3]};
  struct bench_result result = bench_run(settings.threads, work, &settings, values[4]);
  bench_report(&result);
  return 0;
}
