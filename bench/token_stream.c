/* token_stream.c - many small strings that live for a moment, as a lexer makes them.
 *
 * Each step frees the oldest token of a window and makes a new one: a string of a token's length,
 * written in full. One in 64 is kept, as a symbol table keeps names, in place of another kept one.
 * A token is an operation.
 *
 * Lengths are drawn with the shares that the tokens of this repository's C sources (src/) have: half
 * are one character, nine of ten have at most 9, one in 256 has more than 20.
 *
 * What it shows: malloc and free of the smallest sizes, first in first out, where a block that was
 * freed last is not the one that is wanted next.
 */
#define _GNU_SOURCE
#include "harness.h"

#define SYMBOLS 4096
#define TEXT 128

/* Tokens of 256 that have at most so many characters; above 12, a few lengths stand for many. */
static const struct {
  uint16_t share, length;
} shares[] = {
    {131, 1}, {15, 2}, {5, 3},   {28, 4}, {13, 5}, {20, 6}, {6, 7},  {6, 8},
    {8, 9},   {6, 10}, {10, 12}, {3, 14}, {2, 17}, {2, 20}, {1, 40},
};

struct settings {
  uint64_t threads, operations, window;
  char **tables; /* window and symbols of each thread */
  uint8_t lengths[256];
  char text[TEXT];
};

static void prepare(struct settings *settings) {
  size_t filled = 0;
  for (size_t i = 0; i < sizeof shares / sizeof shares[0]; i++)
    for (unsigned k = 0; k < shares[i].share; k++)
      settings->lengths[filled++ & 255] = (uint8_t)shares[i].length;
  if (filled != 256) bench_fail(BENCH_FAILED, "the shares of lengths add up to %zu", filled);
  for (size_t i = 0; i < TEXT; i++) settings->text[i] = (char)('a' + i % 26);
}

/* Frees a token; NULL is allowed. Its first character goes into the checksum. */
static inline uint64_t drop(char *token) {
  if (token == NULL) return 0;
  uint64_t first = (unsigned char)token[0];
  free(token);
  return first;
}

static bool work(struct bench_worker *worker) {
  const struct settings *settings = worker->shared;
  const uint64_t window = settings->window;
  char **tokens = settings->tables + worker->index * (window + SYMBOLS);
  char **symbols = tokens + window;
  uint64_t count = bench_share(settings->operations, settings->threads, worker->index);
  uint64_t state = worker->random;
  uint64_t checksum = 0;
  uint64_t oldest = 0;
  for (uint64_t i = 0; i < count; i++) {
    uint64_t draw = bench_draw(&state);
    size_t length = settings->lengths[draw & 255];
    char *token = bench_malloc(length + 1);
    memcpy(token, &settings->text[(draw >> 8) & 63], length);
    token[length] = 0;
    char **place = &tokens[oldest];
    if (++oldest == window) oldest = 0;
    if (((draw >> 16) & 63) == 0) {
      char **symbol = &symbols[bench_below(bench_high(draw), SYMBOLS)];
      checksum += drop(*symbol);
      *symbol = *place;
    } else {
      checksum += drop(*place);
    }
    *place = token;
  }
  worker->operations = count;
  worker->checksum = checksum;
  return false;
}

int main(int argc, char **argv) {
  static const struct bench_argument arguments[] = {
      BENCH_THREADS,
      {"OPERATIONS", "tokens of all threads", 1, BENCH_MAX_OPERATIONS, NULL, NULL},
      {"WINDOW", "tokens of a thread that are alive", 1, UINT64_C(1) << 24, NULL, NULL},
      BENCH_SEED,
  };
  uint64_t values[4];
  bench_arguments(argc, argv, "Many small strings that live for a moment.", arguments, 4, values);
  static struct settings settings;
  settings = (struct settings){
      .threads = values[0],
      .operations = values[1],
      .window = values[2],
  };
  prepare(&settings);
  uint64_t slots = settings.threads * (settings.window + SYMBOLS);
  settings.tables = bench_map(slots * sizeof(char *));

  struct bench_result result = bench_run(settings.threads, work, &settings, values[3]);

  for (uint64_t i = 0; i < slots; i++) result.checksum += drop(settings.tables[i]);
  bench_report(&result);
  return 0;
}
