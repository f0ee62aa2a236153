/* stress_mix.c - threads with mixed lifetimes that exchange blocks, and are restarted.
 *
 * In each round THREADS threads start afresh. Of a thread's steps, half replace a block of its own
 * table, a quarter free one, a quarter exchange one with a shared table, whoever put it there. At
 * its end a thread frees half of what it has left and puts the rest into the shared table. So blocks
 * live for a step, for a round, or beyond the thread that allocated them. A step is an operation;
 * start and end of the threads are part of the time.
 *
 * Sizes: seven of eight blocks have 16 to 128 bytes, one of 8 up to 1 KiB, one of 64 up to 8 KiB,
 * one of 512 up to 64 KiB.
 *
 * With TOGETHER 1 the threads of a round wait for each other when they begin and before they end, so that all of them hold
 * their memory at once; else the scheduler decides how many do, and the peak with it.
 *
 * What it shows: everything at once, and what the leftovers of ended threads cost. The idea is the
 * mixture in the mstress test of mimalloc's authors.
 */
#define _GNU_SOURCE
#include "harness.h"

#include <pthread.h>
#include <stdatomic.h>

#define OWN 512

struct settings {
  uint64_t threads, rounds, operations, shared;
  uint64_t round;
  bool together;
  pthread_barrier_t barrier;
  _Atomic(char *) *table; /* the shared one */
  char **own;             /* of each thread */
};

static uint64_t drop(char *block) {
  if (block == NULL) return 0;
  uint64_t stamp = bench_stamp_of(block);
  free(block);
  return stamp;
}

static char *make(uint64_t draw) {
  uint64_t size = 16 + bench_below(bench_high(draw), 113);
  uint64_t rare = draw >> 8;
  if (rare % 512 == 0) size *= 512;
  else if (rare % 64 == 0) size *= 64;
  else if (rare % 8 == 0) size *= 8;
  char *block = bench_malloc(size);
  bench_touch(block, size, (char)draw);
  bench_stamp(block, bench_low(draw));
  return block;
}

static char *exchange(struct settings *settings, uint64_t draw, char *block) {
  _Atomic(char *) *place = &settings->table[bench_below(bench_high(draw), settings->shared)];
  return atomic_exchange_explicit(place, block, memory_order_acq_rel);
}

static void wait_for_all(struct settings *settings) {
  if (settings->together) pthread_barrier_wait(&settings->barrier);
}

static bool work(struct bench_worker *worker) {
  struct settings *settings = worker->shared;
  wait_for_all(settings);
  char **own = settings->own + worker->index * OWN;
  uint64_t all = bench_share(settings->operations, settings->rounds, settings->round);
  worker->operations = bench_share(all, settings->threads, worker->index);
  for (uint64_t i = 0; i < worker->operations; i++) {
    uint64_t draw = bench_draw(&worker->random);
    char **place = &own[draw % OWN];
    switch ((draw >> 9) % 4) {
    case 0:
      worker->checksum += drop(*place);
      *place = NULL;
      break;
    case 1:
      *place = exchange(settings, draw, *place);
      break;
    default:
      worker->checksum += drop(*place);
      *place = make(bench_draw(&worker->random));
      break;
    }
  }
  wait_for_all(settings);
  for (int i = 0; i < OWN; i++) {
    char *block = own[i];
    own[i] = NULL;
    if (i % 2 != 0 && block != NULL) block = exchange(settings, bench_draw(&worker->random), block);
    worker->checksum += drop(block);
  }
  return false;
}

int main(int argc, char **argv) {
  static const struct bench_argument arguments[] = {
      BENCH_THREADS,
      {"ROUNDS", "times that the threads are started", 1, 1 << 20, NULL, NULL},
      {"OPERATIONS", "steps of all threads in all rounds", 1, BENCH_MAX_OPERATIONS, NULL, NULL},
      {"SHARED", "places of the shared table", 1, 1 << 20, NULL, "1024"},
      {"TOGETHER", "1: all threads of a round are there at once", 0, 1, NULL, "0"},
      BENCH_SEED,
  };
  uint64_t values[6];
  bench_arguments(argc, argv, "Threads with mixed lifetimes that exchange blocks.", arguments, 6,
                  values);
  static struct settings settings;
  settings = (struct settings){
      .threads = values[0],
      .rounds = values[1],
      .operations = values[2],
      .shared = values[3],
      .together = values[4] != 0,
  };
  pthread_barrier_init(&settings.barrier, NULL, (unsigned)settings.threads);
  settings.table = bench_map(settings.shared * sizeof settings.table[0]);
  settings.own = bench_map(settings.threads * OWN * sizeof(char *));

  struct bench_result result = {0};
  result.seconds = -bench_clock(CLOCK_MONOTONIC);
  result.cpu = -bench_clock(CLOCK_PROCESS_CPUTIME_ID);
  for (settings.round = 0; settings.round < settings.rounds; settings.round++) {
    struct bench_result round = bench_run_threads(settings.threads, work, &settings,
                                                  bench_spread(values[5] + settings.round));
    result.operations += round.operations;
    result.checksum += round.checksum;
  }
  result.seconds += bench_clock(CLOCK_MONOTONIC);
  result.cpu += bench_clock(CLOCK_PROCESS_CPUTIME_ID);

  for (uint64_t i = 0; i < settings.shared; i++) result.checksum += drop(settings.table[i]);
  bench_report(&result);
  return 0;
}
