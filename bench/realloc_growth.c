/* realloc_growth.c - buffers that grow by realloc until they reach a limit.
 *
 * MODE x1.5 and x2 grow as vectors do, plus by STEP bytes at a time (4096: a file read in pages),
 * string by pieces of 1 to STEP bytes, as a string builder appends. What was added is touched: its
 * ends, and a byte in each page. BUFFERS of a thread grow in turn, so that a buffer cannot simply
 * run on into free space behind it; with 1 it can. A realloc is an operation.
 *
 * What it shows: whether growth is done in place, by moving pages (mremap) or by copying, and how
 * quickly a realloc that changes nothing returns. When the clock has stopped, the last buffers are
 * read back: the checksum.
 */
#define _GNU_SOURCE
#include "harness.h"

enum mode { MODE_X15, MODE_X2, MODE_PLUS, MODE_STRING };

#define MAX_BUFFERS 4096

struct buffer {
  char *bytes;
  uint64_t size;
};

struct settings {
  enum mode mode;
  uint64_t threads, buffers, start, limit, growths, step;
  struct buffer *all; /* of all threads */
  uint64_t *random;   /* of each thread, at the begin of its last growth */
};

static inline uint64_t next_size(const struct settings *settings, uint64_t size, uint64_t *state) {
  switch (settings->mode) {
  case MODE_X15:
    return size + size / 2 + 1;
  case MODE_X2:
    return size * 2;
  case MODE_PLUS:
    return size + settings->step;
  default:
    return size + 1 + bench_below(bench_high(bench_draw(state)), settings->step);
  }
}

/* What is written at this size: a byte that also tells apart sizes which differ by whole pages. */
static inline char mark(uint64_t size) { return (char)(size ^ size >> 12 ^ size >> 24); }

static inline void touch_added(char *bytes, uint64_t old_size, uint64_t size) {
  bench_touch(bytes + old_size, size - old_size, mark(size));
}

static void free_all(struct buffer *buffers, uint64_t count) {
  for (uint64_t i = 0; i < count; i++) free(buffers[i].bytes);
}

static uint64_t grow(const struct settings *settings, struct buffer *buffers, uint64_t *state) {
  uint64_t operations = 0;
  for (uint64_t i = 0; i < settings->buffers; i++) {
    buffers[i] = (struct buffer){bench_malloc(settings->start), settings->start};
    touch_added(buffers[i].bytes, 0, settings->start);
  }
  for (uint64_t growing = settings->buffers; growing != 0;) {
    growing = 0;
    for (uint64_t i = 0; i < settings->buffers; i++) {
      struct buffer *buffer = &buffers[i];
      uint64_t size = next_size(settings, buffer->size, state);
      if (size > settings->limit) continue;
      buffer->bytes = bench_check(realloc(buffer->bytes, size), size);
      touch_added(buffer->bytes, buffer->size, size);
      buffer->size = size;
      growing++;
    }
    operations += growing;
  }
  return operations;
}

static bool work(struct bench_worker *worker) {
  const struct settings *settings = worker->shared;
  struct buffer *buffers = settings->all + worker->index * settings->buffers;
  uint64_t growths = bench_share(settings->growths, settings->threads, worker->index);
  for (uint64_t i = 0; i < growths; i++) {
    if (i != 0) free_all(buffers, settings->buffers);
    settings->random[worker->index] = worker->random;
    worker->operations += grow(settings, buffers, &worker->random);
  }
  return false;
}

/* Reads back what the last growth wrote: its steps are the same again. */
static uint64_t read_back(const struct settings *settings, struct buffer *buffers, uint64_t state) {
  uint64_t sizes[MAX_BUFFERS];
  uint64_t sum = 0;
  for (uint64_t i = 0; i < settings->buffers; i++) sizes[i] = settings->start;
  for (uint64_t growing = settings->buffers; growing != 0;) {
    growing = 0;
    for (uint64_t i = 0; i < settings->buffers; i++) {
      uint64_t size = next_size(settings, sizes[i], &state);
      if (size > settings->limit) continue;
      for (uint64_t at = sizes[i]; at < size; at += BENCH_PAGE)
        sum = sum * 31 + (unsigned char)buffers[i].bytes[at];
      if (buffers[i].bytes[size - 1] != mark(size))
        bench_fail(BENCH_FAILED, "byte %" PRIu64 " of a buffer changed as it grew", size - 1);
      sizes[i] = size;
      growing++;
    }
  }
  return sum;
}

int main(int argc, char **argv) {
  static const struct bench_argument arguments[] = {
      {"MODE", "how a buffer grows", 0, 0, "x1.5|x2|plus|string", NULL},
      BENCH_THREADS,
      {"BUFFERS", "buffers of each thread, growing in turn", 1, MAX_BUFFERS, NULL, NULL},
      {"START", "first size, bytes", 1, BENCH_MAX_SIZE, NULL, NULL},
      {"LIMIT", "no buffer grows beyond, bytes", 1, BENCH_MAX_SIZE, NULL, NULL},
      {"GROWTHS", "times that a thread's buffers grow, of all threads; at least THREADS", 1,
       BENCH_MAX_OPERATIONS, NULL, NULL},
      {"STEP", "bytes added in mode plus, at most in mode string", 1, 1 << 20, NULL, "4096"},
      BENCH_SEED,
  };
  uint64_t values[8];
  bench_arguments(argc, argv, "Buffers that grow by realloc until they reach a limit.", arguments,
                  8, values);
  struct settings settings = {
      .mode = (enum mode)values[0],
      .threads = values[1],
      .buffers = values[2],
      .start = values[3],
      .limit = values[4],
      .growths = values[5],
      .step = values[6],
  };
  bench_ordered("START", settings.start, "LIMIT", settings.limit);
  bench_ordered("THREADS", settings.threads, "GROWTHS", settings.growths);
  settings.all = bench_map(settings.threads * settings.buffers * sizeof(struct buffer));
  settings.random = bench_map(settings.threads * sizeof(uint64_t));

  struct bench_result result = bench_run(settings.threads, work, &settings, values[7]);

  for (uint64_t i = 0; i < settings.threads; i++) {
    struct buffer *buffers = settings.all + i * settings.buffers;
    result.checksum += read_back(&settings, buffers, settings.random[i]);
    free_all(buffers, settings.buffers);
  }
  bench_report(&result);
  return 0;
}
