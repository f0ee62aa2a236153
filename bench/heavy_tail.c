/* heavy_tail.c - blocks with the sizes and lifetimes that real programs' blocks have.
 *
 * Size and lifetime of each block are drawn together from a table that was measured on ten programs
 * (heavy_tail_shares.h says how), evenly within a class of either. Time is the number of blocks
 * allocated by the thread. A block dies when its time has come: lifetimes up to 4096 exactly, longer
 * ones to the next multiple of 1024. Each page of a block is written. A block is an operation.
 *
 * What it shows: how an allocator does on the mixture rather than on one size: most blocks small and
 * dead at once, among them long-lived ones that hold slabs open, and now and then a large one.
 *
 * A draw from the table is one look-up, whatever its length (Walker's alias method); blocks are kept
 * in lists by their time of death, linked through the blocks themselves.
 */
#define _GNU_SOURCE
#include "harness.h"

#include "heavy_tail_shares.h"

#define CELLS 512      /* at least SIZES * LIFETIMES, a power of two */
#define EXACT 4096     /* lifetimes below are kept to the step */
#define STEP 1024      /* others to this many */
#define COARSE 2048    /* STEP * COARSE is above the longest lifetime */
#define WHOLE 0x800000 /* thresholds are of 23 bits */

struct block {
  struct block *next;
  uint32_t stamp;
};

/* Below the threshold the cell's own classes hold, else those of the alias. */
struct cell {
  uint32_t threshold;
  uint16_t alias;
  uint8_t size, lifetime;
};

struct wheel {
  struct block *exact[EXACT], *coarse[COARSE];
};

struct settings {
  uint64_t threads, operations;
  struct cell cells[CELLS];
  struct wheel *wheels; /* of each thread */
};

/* Each cell gets the same share of the draws: one class that has less, filled up with another that
 * has more. */
static void prepare(struct settings *settings) {
  int64_t rest[CELLS] = {0}; /* shares, times CELLS */
  int64_t total = 0;
  _Static_assert(SIZES * LIFETIMES <= CELLS, "a cell for each class");
  for (size_t i = 0; i < SIZES * LIFETIMES; i++) {
    settings->cells[i].size = (uint8_t)(i / LIFETIMES);
    settings->cells[i].lifetime = (uint8_t)(i % LIFETIMES);
    total += sizes[i / LIFETIMES].shares[i % LIFETIMES];
    rest[i] = (int64_t)sizes[i / LIFETIMES].shares[i % LIFETIMES] * CELLS;
  }
  bool done[CELLS] = {false};
  for (int filled = 0; filled < CELLS; filled++) {
    int poor = -1;
    int rich = 0;
    for (int i = 0; i < CELLS; i++) {
      if (done[i]) continue;
      if (poor < 0 || rest[i] < rest[poor]) poor = i;
      if (done[rich] || rest[i] > rest[rich]) rich = i;
    }
    settings->cells[poor].threshold = (uint32_t)((double)rest[poor] / (double)total * WHOLE + 0.5);
    settings->cells[poor].alias = (uint16_t)rich;
    rest[rich] -= total - rest[poor];
    done[poor] = true;
  }
}

static uint64_t free_list(struct block **list) {
  uint64_t checksum = 0;
  struct block *block = *list;
  *list = NULL;
  while (block != NULL) {
    struct block *next = block->next;
    checksum += block->stamp;
    free(block);
    block = next;
  }
  return checksum;
}

static inline uint64_t within(uint32_t bits, uint64_t below, uint64_t high) {
  return below + 1 + bench_below(bits, high - below);
}

static bool work(struct bench_worker *worker) {
  const struct settings *settings = worker->shared;
  struct wheel *wheel = &settings->wheels[worker->index];
  uint64_t state = worker->random;
  uint64_t checksum = 0;
  uint64_t count = bench_share(settings->operations, settings->threads, worker->index);
  for (uint64_t now = 0; now < count; now++) {
    if (wheel->exact[now % EXACT] != NULL) checksum += free_list(&wheel->exact[now % EXACT]);
    if (now % STEP == 0) checksum += free_list(&wheel->coarse[now / STEP % COARSE]);

    uint64_t draw = bench_draw(&state);
    const struct cell *cell = &settings->cells[draw % CELLS];
    if (bench_low(draw) >> 9 >= cell->threshold) cell = &settings->cells[cell->alias];
    uint64_t more = bench_draw(&state);
    uint64_t size = SMALLEST;
    if (cell->size != 0)
      size = within(bench_low(more), sizes[cell->size - 1].size, sizes[cell->size].size);
    uint64_t lifetime = 1;
    if (cell->lifetime != 0)
      lifetime = within(bench_high(more), lifetimes[cell->lifetime - 1], lifetimes[cell->lifetime]);

    struct block *block = bench_malloc(size);
    if (size > BENCH_PAGE) bench_touch((char *)block, size, (char)draw);
    struct block **list = lifetime < EXACT ? &wheel->exact[(now + lifetime) % EXACT]
                                           : &wheel->coarse[((now + lifetime) / STEP + 1) % COARSE];
    block->next = *list;
    block->stamp = bench_low(more);
    *list = block;
  }
  worker->operations = count;
  worker->checksum = checksum;
  return false;
}

int main(int argc, char **argv) {
  static const struct bench_argument arguments[] = {
      BENCH_THREADS,
      {"OPERATIONS", "blocks of all threads", 1, BENCH_MAX_OPERATIONS, NULL, NULL},
      BENCH_SEED,
  };
  uint64_t values[3];
  bench_arguments(argc, argv,
                  "Blocks with the sizes and lifetimes that real programs' blocks have.", arguments,
                  3, values);
  static struct settings settings;
  settings = (struct settings){.threads = values[0], .operations = values[1]};
  prepare(&settings);
  settings.wheels = bench_map(settings.threads * sizeof(struct wheel));

  struct bench_result result = bench_run(settings.threads, work, &settings, values[2]);

  for (uint64_t i = 0; i < settings.threads; i++) {
    for (int k = 0; k < EXACT; k++) result.checksum += free_list(&settings.wheels[i].exact[k]);
    for (int k = 0; k < COARSE; k++) result.checksum += free_list(&settings.wheels[i].coarse[k]);
  }
  bench_report(&result);
  return 0;
}
