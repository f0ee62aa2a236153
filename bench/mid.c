/* mid.c - input and output buffers of 8 to 32 KiB, in several threads.
 *
 * Each thread keeps a ring of buffers in flight. A step frees one of the oldest eight, for requests
 * are not answered quite in the order they came in, and allocates another, every page of it written.
 * One in eight is handed to the next thread, which frees it. A buffer is an operation.
 *
 * What it shows: blocks too large for a thread's list of small ones to be cheap in memory, too small
 * to be worth a call of the system.
 */
#define _GNU_SOURCE
#include "harness.h"

#include <stdatomic.h>

#define SPREAD 8

struct mailbox {
  _Alignas(128) _Atomic(char *) buffer;
};

struct settings {
  uint64_t threads, operations, flight, min_size, max_size;
  char **rings; /* of all threads */
  struct mailbox *mailboxes;
};

static uint64_t drop(char *buffer) {
  if (buffer == NULL) return 0;
  uint64_t stamp = bench_stamp_of(buffer);
  free(buffer);
  return stamp;
}

static char *post(struct mailbox *mailbox, char *buffer) {
  return atomic_exchange_explicit(&mailbox->buffer, buffer, memory_order_acq_rel);
}

static bool work(struct bench_worker *worker) {
  const struct settings *settings = worker->shared;
  const uint64_t size_count = settings->max_size - settings->min_size + 1;
  char **ring = settings->rings + worker->index * settings->flight;
  struct mailbox *mine = &settings->mailboxes[worker->index];
  struct mailbox *next = &settings->mailboxes[(worker->index + 1) % settings->threads];
  uint64_t oldest = 0;
  worker->operations = bench_share(settings->operations, settings->threads, worker->index);
  for (uint64_t i = 0; i < worker->operations; i++) {
    uint64_t draw = bench_draw(&worker->random);
    char **place = &ring[(oldest + draw % SPREAD) % settings->flight];
    if (++oldest == settings->flight) oldest = 0;
    char *old = *place;
    if ((draw >> 8) % 8 == 0) {
      old = post(next, old);
      worker->checksum += drop(post(mine, NULL));
    }
    worker->checksum += drop(old);
    uint64_t size = settings->min_size + bench_below(bench_high(draw), size_count);
    char *buffer = bench_malloc(size);
    bench_touch(buffer, size, (char)draw);
    bench_stamp(buffer, bench_low(draw));
    *place = buffer;
  }
  return false;
}

int main(int argc, char **argv) {
  static const struct bench_argument arguments[] = {
      BENCH_THREADS,
      {"OPERATIONS", "buffers of all threads", 1, BENCH_MAX_OPERATIONS, NULL, NULL},
      {"FLIGHT", "buffers of a thread that are in use", SPREAD, UINT64_C(1) << 24, NULL, NULL},
      {"MIN_SIZE", "smallest buffer, bytes", BENCH_STAMPED, BENCH_MAX_SIZE, NULL, "8192"},
      {"MAX_SIZE", "largest buffer, bytes", BENCH_STAMPED, BENCH_MAX_SIZE, NULL, "32768"},
      BENCH_SEED,
  };
  uint64_t values[6];
  bench_arguments(argc, argv, "Input and output buffers, in several threads.", arguments, 6,
                  values);
  struct settings settings = {
      .threads = values[0],
      .operations = values[1],
      .flight = values[2],
      .min_size = values[3],
      .max_size = values[4],
  };
  bench_ordered("MIN_SIZE", settings.min_size, "MAX_SIZE", settings.max_size);
  uint64_t places = settings.threads * settings.flight;
  settings.rings = bench_map(places * sizeof(char *));
  settings.mailboxes = bench_map(settings.threads * sizeof(struct mailbox));

  struct bench_result result = bench_run(settings.threads, work, &settings, values[5]);

  for (uint64_t i = 0; i < places; i++) result.checksum += drop(settings.rings[i]);
  for (uint64_t i = 0; i < settings.threads; i++)
    result.checksum += drop(post(&settings.mailboxes[i], NULL));
  bench_report(&result);
  return 0;
}
