/* churn_threads.c - threads that live for a moment and leave blocks behind.
 *
 * THREADS are alive at a time. Each frees what an earlier one left, allocates BLOCKS blocks, frees
 * three of four, leaves the rest in a shared table for whoever comes, starts its successor and
 * ends. A thread's life is an operation.
 *
 * What it shows: what it costs to set up and give up a thread's heap, and whether the memory of
 * ended threads is found again. The start of a thread itself, some 10 to 20 microseconds, is the
 * same for every allocator.
 */
#define _GNU_SOURCE
#include "harness.h"

#include <stdatomic.h>

#define MAX_BLOCKS 4096
#define LEFT 64 /* lists of blocks without a thread */

struct block {
  uint32_t stamp;
  struct block *next;
};

struct settings {
  uint64_t threads, starts, blocks, min_size, max_size;
  _Atomic(struct block *) left[LEFT];
};

static uint64_t free_list(struct block *block) {
  uint64_t checksum = 0;
  while (block != NULL) {
    struct block *next = block->next;
    checksum += block->stamp;
    free(block);
    block = next;
  }
  return checksum;
}

/* Puts a list into a random place of the table and frees the one that was there. */
static uint64_t exchange(struct settings *settings, uint64_t draw, struct block *list) {
  _Atomic(struct block *) *place = &settings->left[bench_below(bench_low(draw), LEFT)];
  return free_list(atomic_exchange_explicit(place, list, memory_order_acq_rel));
}

static bool work(struct bench_worker *worker) {
  struct settings *settings = worker->shared;
  struct block *blocks[MAX_BLOCKS];
  worker->checksum += exchange(settings, bench_draw(&worker->random), NULL);
  for (uint64_t i = 0; i < settings->blocks; i++) {
    uint64_t draw = bench_draw(&worker->random);
    uint64_t size = settings->min_size +
                    bench_below(bench_high(draw), settings->max_size - settings->min_size + 1);
    blocks[i] = bench_malloc(size);
    bench_touch((char *)blocks[i], size, (char)draw);
    blocks[i]->stamp = bench_low(draw);
    blocks[i]->next = NULL;
  }
  struct block *left = NULL;
  for (uint64_t i = 0; i < settings->blocks; i++) {
    if (i % 4 == 0) {
      blocks[i]->next = left;
      left = blocks[i];
    } else {
      worker->checksum += free_list(blocks[i]);
    }
  }
  worker->checksum += exchange(settings, bench_draw(&worker->random), left);
  worker->operations++;
  return worker->operations < bench_share(settings->starts, settings->threads, worker->index);
}

int main(int argc, char **argv) {
  static const struct bench_argument arguments[] = {
      {"THREADS", "threads alive at a time", 1, BENCH_MAX_THREADS, NULL, NULL},
      {"STARTS", "threads in all; at least THREADS", 1, BENCH_MAX_OPERATIONS, NULL, NULL},
      {"BLOCKS", "blocks that each allocates", 1, MAX_BLOCKS, NULL, NULL},
      {"MIN_SIZE", "smallest block, bytes", sizeof(struct block), BENCH_MAX_SIZE, NULL, NULL},
      {"MAX_SIZE", "largest block, bytes", sizeof(struct block), BENCH_MAX_SIZE, NULL, NULL},
      BENCH_SEED,
  };
  uint64_t values[6];
  bench_arguments(argc, argv, "Threads that live for a moment and leave blocks behind.", arguments,
                  6, values);
  static struct settings settings;
  settings = (struct settings){
      .threads = values[0],
      .starts = values[1],
      .blocks = values[2],
      .min_size = values[3],
      .max_size = values[4],
  };
  bench_ordered("THREADS", settings.threads, "STARTS", settings.starts);
  bench_ordered("MIN_SIZE", settings.min_size, "MAX_SIZE", settings.max_size);

  struct bench_result result = bench_run_threads(settings.threads, work, &settings, values[5]);

  for (uint64_t i = 0; i < LEFT; i++) result.checksum += exchange(&settings, i << 26, NULL);
  bench_report(&result);
  return 0;
}
