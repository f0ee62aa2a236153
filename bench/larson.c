/* larson.c - a server's threads, whose blocks outlive them.
 *
 * Each lane is a table full of blocks. Its thread replaces random ones: a free, then a malloc of
 * another size. After ROUND replacements the thread starts another, hands the table over and ends,
 * as the connections of a server pass from one worker thread to the next. So most frees are of
 * blocks that a thread allocated which is gone ("bleeding"); with ROUND 0 none is. The tables are
 * filled by the main thread. A replacement is an operation.
 *
 * What it shows: the cost of a free by another thread, and what becomes of the memory of threads
 * that ended. An allocator that cannot take it over grows with every hand-over.
 *
 * With RELEASE=sized blocks are freed with free_sized, with RELEASE=delete they come from operator
 * new and go to the operator delete that is told the size: what C++ containers call. Where the
 * allocator has no such function, malloc and free are called; the report says so.
 *
 * The idea is that of Larson and Krishnan, "Memory allocation for long-running server
 * applications", 1998.
 */
#define _GNU_SOURCE
#include "harness.h"

void free_sized(void *block, size_t size) __attribute__((weak));
void *operator_new(size_t size) __asm__("_Znwm") __attribute__((weak));
void operator_delete(void *block, size_t size) __asm__("_ZdlPvm") __attribute__((weak));

enum release { RELEASE_FREE, RELEASE_SIZED, RELEASE_DELETE };

struct settings {
  uint64_t threads, operations, slots, round, min_size, max_size;
  char **blocks;   /* of all lanes */
  uint32_t *sizes; /* used where the size is told */
  void *(*allocate)(size_t);
  void (*release)(void *, size_t);
  bool sized;
};

static void free_without_size(void *block, size_t size) {
  (void)size;
  free(block);
}

static inline __attribute__((always_inline)) void
replace(struct bench_worker *worker, const struct settings *settings, uint64_t count, bool sized) {
  const uint64_t slots = settings->slots;
  const uint64_t min_size = settings->min_size;
  const uint64_t size_count = settings->max_size - min_size + 1;
  char **const blocks = settings->blocks + worker->index * slots;
  uint32_t *const sizes = settings->sizes + worker->index * slots;
  void *(*const allocate)(size_t) = settings->allocate;
  void (*const release)(void *, size_t) = settings->release;
  uint64_t state = worker->random;
  uint64_t checksum = 0;
  for (; count != 0; count--) {
    bench_draw(&state);
    uint64_t slot = bench_below(bench_low(state), slots);
    uint64_t size = min_size + bench_below(bench_high(state), size_count);
    checksum += bench_stamp_of(blocks[slot]);
    char *block;
    if (sized) {
      release(blocks[slot], sizes[slot]);
      block = bench_check(allocate(size), size);
      sizes[slot] = (uint32_t)size;
    } else {
      free(blocks[slot]);
      block = bench_malloc(size);
    }
    bench_stamp(block, (uint32_t)state);
    block[size - 1] = (char)state;
    blocks[slot] = block;
  }
  worker->random = state;
  worker->checksum += checksum;
}

static __attribute__((noinline)) void
replace_plain(struct bench_worker *worker, const struct settings *settings, uint64_t count) {
  replace(worker, settings, count, false);
}

static __attribute__((noinline)) void
replace_sized(struct bench_worker *worker, const struct settings *settings, uint64_t count) {
  replace(worker, settings, count, true);
}

static bool work(struct bench_worker *worker) {
  const struct settings *settings = worker->shared;
  uint64_t all = bench_share(settings->operations, settings->threads, worker->index);
  uint64_t count = all - worker->operations;
  if (settings->round != 0 && count > settings->round) count = settings->round;
  if (settings->sized) replace_sized(worker, settings, count);
  else replace_plain(worker, settings, count);
  worker->operations += count;
  return worker->operations < all;
}

static void fill(const struct settings *settings, uint64_t seed) {
  uint64_t state = bench_spread(~seed);
  for (uint64_t i = 0; i < settings->threads * settings->slots; i++) {
    bench_draw(&state);
    uint64_t size = settings->min_size +
                    bench_below(bench_high(state), settings->max_size - settings->min_size + 1);
    char *block = bench_check(settings->allocate(size), size);
    bench_stamp(block, (uint32_t)state);
    settings->blocks[i] = block;
    settings->sizes[i] = (uint32_t)size;
  }
}

static const char *choose_release(struct settings *settings, enum release release) {
  settings->allocate = malloc;
  settings->release = free_without_size;
  settings->sized = release != RELEASE_FREE;
  if (release == RELEASE_SIZED && free_sized != NULL) {
    settings->release = free_sized;
    return "free_sized";
  }
  if (release == RELEASE_DELETE && operator_new != NULL && operator_delete != NULL) {
    settings->allocate = operator_new;
    settings->release = operator_delete;
    return "sized operator delete";
  }
  if (release == RELEASE_SIZED) return "free (this allocator has no free_sized)";
  return release == RELEASE_FREE ? "free" : "free (this allocator has no sized operator delete)";
}

int main(int argc, char **argv) {
  static const struct bench_argument arguments[] = {
      BENCH_THREADS,
      {"OPERATIONS", "replacements of all threads", 1, BENCH_MAX_OPERATIONS, NULL, NULL},
      {"SLOTS", "blocks of each thread", 1, UINT64_C(1) << 24, NULL, NULL},
      {"ROUND", "replacements before a thread hands over; 0: never", 0, BENCH_MAX_OPERATIONS, NULL,
       NULL},
      {"MIN_SIZE", "smallest block, bytes", BENCH_STAMPED, BENCH_MAX_SIZE, NULL, NULL},
      {"MAX_SIZE", "largest block, bytes", BENCH_STAMPED, BENCH_MAX_SIZE, NULL, NULL},
      {"RELEASE", "how blocks are freed", 0, 0, "free|sized|delete", "free"},
      BENCH_SEED,
  };
  uint64_t values[8];
  bench_arguments(argc, argv, "A server's threads, whose blocks outlive them.", arguments, 8,
                  values);
  struct settings settings = {
      .threads = values[0],
      .operations = values[1],
      .slots = values[2],
      .round = values[3],
      .min_size = values[4],
      .max_size = values[5],
  };
  bench_ordered("MIN_SIZE", settings.min_size, "MAX_SIZE", settings.max_size);
  const char *release = choose_release(&settings, (enum release)values[6]);
  uint64_t slots = settings.threads * settings.slots;
  settings.blocks = bench_map(slots * sizeof(char *));
  settings.sizes = bench_map(slots * sizeof(uint32_t));
  fill(&settings, values[7]);

  struct bench_result result = settings.round != 0
                                   ? bench_run_threads(settings.threads, work, &settings, values[7])
                                   : bench_run(settings.threads, work, &settings, values[7]);

  for (uint64_t i = 0; i < slots; i++) {
    result.checksum += bench_stamp_of(settings.blocks[i]);
    settings.release(settings.blocks[i], settings.sizes[i]);
  }
  printf("release: %s\n", release);
  bench_report(&result);
  return 0;
}
